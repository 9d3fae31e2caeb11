// Package cli holds the habits that all of perigee's commands share: how words become options, how numbers and errors
// are written, when output is given up, and which streams a command uses. main hands a command its streams, so that
// every command runs in a test's process as well.
//
// Command lines are structs with kong's tags. Parser makes a parser of one with both spellings of flags, --data-size
// and --data_size (spelling.go), and decimal numbers (decimal.go); internal/rules sees to it that no command makes a
// parser in another way. Take and Words (flags.go) read and write flags among words whose meaning is known only later:
// a launcher takes its own and passes the others on, as the scenario's options are known only once its script has been
// read. Quote and CommandLine (words.go) write words as a shell reads them.
//
// An Output (output.go) remembers that a write has failed, so that a command need not check each line that it prints.
// A pipe whose reader has had enough, such as head, is no error to report; a full disk is (LostOutput). Endings
// (signals.go) are the signals at which a command cleans up and ends. Ends (ends.go) keeps the beginning and the end
// of what another program has printed, for messages about it.
//
// PrintError writes an error and its hint, control characters escaped. FormatFor chooses between text, CSV, JSON and
// HTML by an option or a file's name, and NotOver refuses to write over an input. ManPage (man.go) writes a command's
// manual page from the same structs.
//
// Mistakes on a command line are faults of the kind Usage, output that cannot be written is one of the kind Output.
package cli
