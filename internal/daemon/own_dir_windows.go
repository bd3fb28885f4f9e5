package daemon

import "os"

// isOurs says whether a file belongs to who runs this process. The directory says that here.
func isOurs(os.FileInfo) bool { return true }

func isLinkedTwice(os.FileInfo) bool { return false }
