package rules

// A place is a part of the conversation.
type place struct{ content, part int }

func calls(c Content) []int {
	return where(c, func(p Part) bool { return p.Call != nil })
}

func responses(c Content) []int {
	return where(c, func(p Part) bool { return p.Response != nil })
}

func where(c Content, want func(Part) bool) []int {
	var at []int
	for i, p := range c.Parts {
		if want(p) {
			at = append(at, i)
		}
	}
	return at
}

// resultsOnly reports whether a content consists of function responses alone, with any role.
func resultsOnly(c Content) bool { return len(c.Parts) > 0 && len(responses(c)) == len(c.Parts) }

// A message is the contents of one side in a row, as [from, to): the backend reads them as one.
type message [2]int

// lastMessage returns the message of the user that ends the list. It is empty if the last content
// is the model's.
func lastMessage(contents []Content) message {
	from := len(contents)
	for from > 0 && userSide(contents[from-1]) {
		from--
	}
	return message{from, len(contents)}
}

// userSide reports whether a content belongs to the user: function responses do, with any role.
func userSide(c Content) bool { return c.Role == "user" || resultsOnly(c) }

// answers reports whether a message has the result of a call, whether it also has a text, and
// whether it has a part that is not a result.
func (m message) answers(contents []Content) (answers, text, more bool) {
	for _, c := range contents[m[0]:m[1]] {
		for _, p := range c.Parts {
			answers = answers || p.Response != nil
			text = text || p.HasText
			more = more || p.Response == nil
		}
	}
	return answers, text, more
}

// ends reports whether a message ends the model's turn. A message of results alone does not;
// observations disagree about messages with results and other parts.
func (m message) ends(contents []Content, continues string) bool {
	switch answers, text, more := m.answers(contents); {
	case !answers:
		return true
	case continues == "anything":
		return false
	case continues == "nothing":
		return more
	default:
		return text
	}
}

// currentTurn returns the index after the last message that ended a turn.
func (r *request) currentTurn(contents []Content) int {
	for end := len(contents); end > 0; {
		if !userSide(contents[end-1]) {
			end--
			continue
		}
		m := lastMessage(contents[:end])
		if m.ends(contents, r.in.Switches.TurnContinuesWith) {
			return end
		}
		end = m[0]
	}
	return 0
}

// openTurn returns the index of the first content of the turn that the model is to continue after
// results, with or without other parts; -1 if there is no such turn.
func (r *request) openTurn() int {
	contents := r.parsed.Contents
	last := lastMessage(contents)
	if answers, _, _ := last.answers(contents); !answers {
		return -1
	}
	return r.currentTurn(contents[:last[0]])
}

// modelRuns lists the stretches of contents that are the model's, as [from, to). The backend reads
// each as one message.
func modelRuns(contents []Content) [][2]int {
	var runs [][2]int
	for i := 0; i < len(contents); i++ {
		if userSide(contents[i]) {
			continue
		}
		from := i
		for i+1 < len(contents) && !userSide(contents[i+1]) {
			i++
		}
		runs = append(runs, [2]int{from, i + 1})
	}
	return runs
}

// parts lists the parts of a run in order.
func parts(contents []Content, run [2]int) []place {
	var at []place
	for i := run[0]; i < run[1]; i++ {
		for j := range contents[i].Parts {
			at = append(at, place{i, j})
		}
	}
	return at
}
