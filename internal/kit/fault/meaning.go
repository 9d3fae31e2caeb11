package fault

import (
	"maps"
	"slices"
)

// meanings are the sentences of the table of exit codes.
var meanings = map[Kind]string{
	Internal:  "A defect of perigee, or a failure of the system that it does not know.",
	Usage:     "The command line is wrong.",
	Input:     "A file that the user gave is missing or wrong.",
	Script:    "The Lua scenario failed.",
	Launch:    "The ranks could not be started or could not find each other.",
	Engine:    "The transfer engine is missing, unusable or failed.",
	Resource:  "The machine lacks what was asked for: memory, ports, a GPU.",
	Corrupt:   "Verification found wrong bytes.",
	RankLost:  "A rank died or left.",
	Timeout:   "A wait of ranks that had met took longer than --timeout.",
	Output:    "A result could not be written.",
	Threshold: "A measured figure is beyond a threshold.",
	Worse:     "A comparison found something worse than before.",
	Interrupt: "The job was interrupted.",
}

// Kinds lists all kinds by their exit codes.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kindNames)) }

// Meaning is the kind's sentence in the table of exit codes.
func (k Kind) Meaning() string { return meanings[k] }
