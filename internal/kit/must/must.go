// Package must ends tests at errors that nothing expects, in a line.
package must

// Do ends the test at an error, as of the code that prepares what is tested.
func Do(t interface{ Fatal(...any) }, err error) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	if err != nil {
		t.Fatal(err)
	}
}
