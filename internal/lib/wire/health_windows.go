package wire

import "golang.org/x/sys/windows"

func setSocketOptions(fd uintptr) {
	_ = windows.SetsockoptInt(windows.Handle(fd), windows.IPPROTO_TCP, windows.TCP_MAXRT, int(ackTimeout.Seconds()))
}
