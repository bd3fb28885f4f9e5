package langserver

import "os"

func signalZero(*os.Process) error { return nil }
