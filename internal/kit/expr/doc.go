// Package expr is the language of conditions on the rows of a table, and of bounds on its columns:
//
//	TP >= 4 && Is_PD
//	Model =~ "70B" && (Mean_TTFT_ms < 200 || Concurrency == 1)
//	phase="workload", size=64K
//	P90_TTFT_ms <= 1.5s
//
// Each kind of rows has a catalogue of [Column]s: the runs of a sweep in internal/serving/runs, the samples of a metric
// in internal/figures/metric.
//
// The operators, those that bind weakest first:
//
//	,                        all, in lists only
//	||                       either
//	&&                       both
//	!                        not
//	== = != < <= > >=        numbers and text; == and != also true and false
//	=~ !~                    text on the left, a quoted regular expression (RE2) on the right
//	+ -                      numbers
//	* /                      numbers
//	- +                      a number with the other or the same sign
//
// Operands are column names, numbers, text in single or double quotes, true, false, null and parentheses. A number
// that is compared with a column of times or bytes may have a unit: 1.5s, 64K. Types are checked before anything is
// evaluated.
//
// An empty cell is neither equal nor unequal to anything, neither smaller nor larger: every comparison with it is
// false, except that X == null is true for it and X != null false. A column of true and false counts as false where it
// is empty, and arithmetic with an empty cell, or a division by 0, gives an empty value. Where a cell has several
// numbers (TP is 4 and 8), a comparison is true if it is true of all of them; arithmetic with them gives an empty
// value. Text is compared letter by letter.
//
// # Reading order
//
// column.go has Entry and Column, cell.go the values of a row. scan.go has a Scanner, which thresholds use as well: it
// reads words, numbers and units, and Bound, which is a comparison without a left side. expr.go has Language, a
// catalogue of columns, and its parser, a function for each level of the table above, which makes closures of a row: a
// condition is read once and asked for each of millions of samples. Mistakes are of the kind Usage and say at which
// character and what was wanted there.
package expr
