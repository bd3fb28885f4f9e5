package connectcmd

import "os"

// passedOn are the signals that a client gets: the console sends them to all of its processes.
var passedOn = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }

func exitStatus(state *os.ProcessState) int { return state.ExitCode() }
