// Package report is `perigee report`: a page, a summary for the terminal, or JSON of one or several results. Package
// figures computes; this package only shows, so that all three say the same. The page stands on package page: one file
// that opens from anywhere and asks the network for nothing.
//
// What is no result of perigee has a command for it, which door.go calls with the same words.
//
// report.go has the command, text.go and heatmap.go the summary, html.go with data.go the page. experts.go shows what
// perigee ep leaves among a result's values, tables.go the tables that a scenario has printed, indent.go writes long
// JSON without holding it twice.
//
// A result may hold a million runs and ten thousand patterns, and a browser shows neither: the constants at the top of
// html.go bound rows, pairs and notes, and the page says what is left out. Charts get columns of numbers with no more
// digits than can be seen (data.go). The text is as wide as the terminal, uses colours only there, and obeys NO_COLOR.
//
// Results may come from others. Values that a scenario has set are looked at as data of any form (experts.go), names
// are escaped, and what does not have the expected form is left out rather than an error.
package report
