// Package inspect is `perigee result`: it looks into results, and turns them into other formats, for those who want to
// compute with the numbers themselves. Its commands are show (inspect.go), cat, an expression of jq (cat.go), convert
// (convert.go), and rows as JSON Lines or CSV (rows.go).
//
// Results can be larger than memory, so that show and convert are streams: result.Scan hands over measurements one by
// one, and the writer of rows keeps none. cat holds the whole document, as jq does.
//
// An expression that leads nowhere is an error which says how far it came and what is there. Mistakes in an expression
// are of kind Usage, files that are no results of kind Input. The columns of rows are listed in docs/report.md; they
// are part of the interface, so that columns are added and never renamed.
package inspect
