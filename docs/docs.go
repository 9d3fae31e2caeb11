// Package docs holds what the program itself prints of the documentation: the JSON schema of results, for `perigee
// result --schema`. Go embeds only files of a package's own folder, so that this one lies beside the texts.
package docs

import _ "embed"

// ResultSchema is the JSON schema of result files.
//
//go:embed result.schema.json
var ResultSchema string
