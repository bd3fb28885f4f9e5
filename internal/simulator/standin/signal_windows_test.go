package standin

import "os"

func signalZero(*os.Process) error { return nil }
