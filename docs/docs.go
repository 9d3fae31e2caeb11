// Package docs holds what the program itself prints of the documentation.
package docs

import _ "embed"

// ResultSchema is the JSON schema of result files.
//
//go:embed result.schema.json
var ResultSchema string
