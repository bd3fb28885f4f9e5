package doctor

import "golang.org/x/sys/unix"

// networkFilesystem returns the kind of the network filesystem that a directory is on, or "".
func networkFilesystem(dir string) string {
	var disk unix.Statfs_t
	if unix.Statfs(dir, &disk) != nil {
		return ""
	}
	switch uint32(disk.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "SMB"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "AFS"
	case unix.CEPH_SUPER_MAGIC:
		return "Ceph"
	case unix.CODA_SUPER_MAGIC:
		return "Coda"
	}
	return ""
}
