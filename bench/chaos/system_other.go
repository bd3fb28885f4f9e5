//go:build !linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

var errLinux = errors.New("bench/chaos needs Linux")

func dieWithParent(*exec.Cmd) {}

func smallDisk(dir, size string) (string, bool, error) {
	return dir, false, errors.Join(errLinux, os.MkdirAll(dir, 0o700))
}

func unmount(string) {}

func fillDisk(*world) (string, func(), error) { return "", nil, errLinux }

func fewDescriptors(*process) (func(), error) { return nil, errLinux }

func freeze(context.Context, []int, time.Duration) {}

func diskUse(string) map[string]int64 { return nil }
