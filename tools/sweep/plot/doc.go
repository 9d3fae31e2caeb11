// Package plot shows the trade-off between two columns over the runs of a scenario: as a picture, PNG or SVG, with a
// line per configuration through its runs in the order of concurrency, a dot per run, and the Pareto front; and as an
// interactive page.
//
// Select (series.go) chooses the runs and makes points and lines of them; both pictures draw the same Data. draw.go
// draws with gonum, labels.go finds a place for each label that covers no other and no dot, legend.go names the
// configurations and says how many have no room.
//
// WritePage (page.go) makes one HTML file in which the reader chooses scenario, axes, configurations and objectives,
// sees the trade-off with its Pareto front, and finds every run in a table. model.js computes what series.go does, in
// the browser, and tests compare the two; chart.js draws and sweep.js joins them.
//
// Points without a value for an axis, or not above 0 on a logarithmic one, are left out. A scenario without any point
// is an error of kind Input.
package plot
