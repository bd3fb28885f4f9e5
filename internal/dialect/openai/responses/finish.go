package responses

import "perigee"

// contentFilter is the reason of an incomplete answer that was withheld because of its content.
const contentFilter = "content_filter"

// finish sets the status of the answer from the model's finish and the output so far.
func (a *answer) finish(f *perigee.Finish, calls, items int) {
	a.status = statusCompleted
	if f == nil || calls > 0 {
		return // the client has to answer the call
	}
	switch {
	case f.Kind == perigee.FinishLength:
		a.status, a.incomplete = statusIncomplete, "max_output_tokens"
	case f.Kind == perigee.FinishFiltered:
		a.status, a.incomplete = statusIncomplete, contentFilter
	case f.Kind == perigee.FinishMalformed: // agents retry a failed response
		a.status, a.errorCode, a.errorClass, a.errorText = statusFailed, "server_error", perigee.ClassUnavailable, f.Error
		if f.Message != "" {
			a.errorText += ": " + f.Message
		}
	case f.Message != "" && items == 0: // there is only a reason for the missing output
		a.status, a.incomplete = statusIncomplete, contentFilter
	}
}
