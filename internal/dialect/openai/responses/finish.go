package responses

import "perigee"

// contentFilter is why an answer is incomplete that was withheld for what it is about.
const contentFilter = "content_filter"

// finish says how the answer ended, from how the model ended and what had come.
func (a *answer) finish(f *perigee.Finish, calls, items int) {
	a.status = statusCompleted
	if f == nil || calls > 0 {
		return // a call is to be answered, whatever came after it
	}
	switch {
	case f.Kind == perigee.FinishLength:
		a.status, a.incomplete = statusIncomplete, "max_output_tokens"
	case f.Kind == perigee.FinishFiltered:
		a.status, a.incomplete = statusIncomplete, contentFilter
	case f.Kind == perigee.FinishMalformed: // an agent should try again, rather than take this for the answer
		a.status, a.errorCode, a.errorClass, a.errorText = statusFailed, "server_error", perigee.ClassUnavailable, f.Trouble
		if f.Message != "" {
			a.errorText += ": " + f.Message
		}
	case f.Message != "" && items == 0: // nothing but a reason why there is nothing
		a.status, a.incomplete = statusIncomplete, contentFilter
	}
}
