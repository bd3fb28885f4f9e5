package perigee

// CurrentTurn is the index of the first content of the turn that the model is in: the one after the last message of the
// user's that answers no call. Contents of the user's in a row are one message. A message with the result of a call
// belongs to the turn, whatever stands beside the result: a picture that the tool has made, or a text. Providers disagree
// about the text, so what a turn needs (signatures, thinking) is seen to as if it did not end the turn.
func CurrentTurn(contents []Content) int {
	for end := len(contents); end > 0; {
		if contents[end-1].Role == RoleModel {
			end--
			continue
		}
		begin := LastMessage(contents[:end])
		if !HaveResult(contents[begin:end]) {
			return end
		}
		end = begin
	}
	return 0
}

// LastMessage is the index of the first content of the user's last message: of those that end the list and are not the
// model's. It is the length of a list that ends with the model.
func LastMessage(contents []Content) int {
	begin := len(contents)
	for begin > 0 && contents[begin-1].Role != RoleModel {
		begin--
	}
	return begin
}

// HaveResult says whether one of the contents has the result of a call.
func HaveResult(contents []Content) bool {
	for i := range contents {
		for j := range contents[i].Parts {
			if contents[i].Parts[j].Kind == PartResponse {
				return true
			}
		}
	}
	return false
}
