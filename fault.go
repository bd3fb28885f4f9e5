package perigee

// A Fault says which part of a request is to blame, in the words of the API that the client speaks. It is the cause of an Error:
// dialects have places for it in theirs, and some clients act on it without asking the user.
type Fault struct {
	Param string // the field, with its path; empty: it is about none
	Code  string // the API's own name for the problem; empty: it has none
}

func (f *Fault) Error() string {
	if f.Param == "" || f.Code == "" {
		return f.Param + f.Code
	}
	return f.Param + ": " + f.Code
}
