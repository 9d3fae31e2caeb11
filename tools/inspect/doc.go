// Package inspect is `perigee result`: it looks into results, and turns them into other formats, for those who want to
// compute with the numbers themselves. Its commands are cat and show (inspect.go), a path into the document (path.go),
// convert (convert.go), and rows as JSON Lines or CSV (rows.go).
//
// Results can be larger than memory, so that nearly all of this is a stream: result.Scan hands over measurements one
// by one, a path is followed through the tokens of the JSON text, and the writer of rows keeps none. Only a conversion
// of the whole document holds it.
//
// A path is steps of names and indices, as in .measurements[0].latency_ns; [] stands for every element. One that leads
// nowhere is an error which says how far it came and what is there. Mistakes in a path are of kind Usage, files that
// are no results of kind Input. The columns of rows are listed in docs/report.md; they are part of the interface, so
// that columns are added and never renamed.
package inspect
