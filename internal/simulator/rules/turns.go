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

// resultsOnly says whether a content is the answer to calls and nothing else, whichever role it has.
func resultsOnly(c Content) bool { return len(c.Parts) > 0 && len(responses(c)) == len(c.Parts) }

// currentTurn is the index after the last thing the user really said: results of calls do not end a turn.
func currentTurn(contents []Content) int {
	for i := len(contents) - 1; i >= 0; i-- {
		if contents[i].Role == "user" && !resultsOnly(contents[i]) {
			return i + 1
		}
	}
	return 0
}

// inToolLoop says whether the model is to go on after results.
func inToolLoop(contents []Content) bool {
	last := len(contents) - 1
	return last >= 0 && contents[last].Role == "user" && len(responses(contents[last])) > 0
}

// modelRuns lists the stretches of contents that are the model's, as [from, to). The backend reads each as one message.
func modelRuns(contents []Content) [][2]int {
	var runs [][2]int
	for i := 0; i < len(contents); i++ {
		if contents[i].Role != "model" {
			continue
		}
		from := i
		for i+1 < len(contents) && contents[i+1].Role == "model" {
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
