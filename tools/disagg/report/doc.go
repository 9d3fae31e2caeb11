// Package report writes what runs have found, and reads it again: the CSV file that
// collects the figures of all runs, a JUnit report, the properties of the session, a
// perigee result of each case, and a page.
//
// From the figures of many runs of the same cases it says what a figure comes to, how
// noisy it is, and whether two runs can be told apart.
package report
