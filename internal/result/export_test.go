package result

// AppendRecord is for tests that damage journals.
var AppendRecord = appendRecord
