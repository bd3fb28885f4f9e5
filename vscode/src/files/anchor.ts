import { constants } from "node:fs";
import * as fs from "node:fs/promises";
import * as path from "node:path";

// Flags that Windows lacks are 0 there.
const flags = {
  directory: constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NOFOLLOW ?? 0),
  // A pipe must not block, and a link that has taken the place of the file must not be followed.
  read: constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0),
  create: constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | (constants.O_NOFOLLOW ?? 0),
};

// An Anchor is a directory that stays the same while it is used. Linux has a path for an open directory, so that names in it cannot
// lead anywhere else when a directory above is swapped for a link. Elsewhere there are only paths: a swap between the check and the
// use is not noticed.
export class Anchor {
  private constructor(
    private readonly handle: fs.FileHandle | undefined,
    private readonly base: string,
    // real is the path of the directory when it was opened.
    readonly real: string,
  ) {}

  // open opens a directory by its real path, and fails if check refuses the path that it has when it is open.
  static async open(dir: string, check: (real: string) => Promise<void>): Promise<Anchor> {
    if (process.platform !== "linux") {
      const real = await fs.realpath(dir);
      await check(real);
      return new Anchor(undefined, real, real);
    }
    const handle = await fs.open(dir, flags.directory);
    try {
      const base = `/proc/self/fd/${handle.fd}`;
      const real = await fs.readlink(base);
      await check(real);
      return new Anchor(handle, base, real);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.handle?.close();
  }

  // at is a path of a name in the directory, valid until close.
  at(name: string): string {
    return path.join(this.base, name);
  }

  read(name: string): Promise<fs.FileHandle> {
    return fs.open(this.at(name), flags.read);
  }

  create(name: string, mode: number): Promise<fs.FileHandle> {
    return fs.open(this.at(name), flags.create, mode);
  }

  // below opens a directory in this one, and creates it if it does not exist. A link is not followed.
  async below(name: string, check: (real: string) => Promise<void>): Promise<Anchor> {
    await fs.mkdir(this.at(name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") {
        throw error;
      }
    });
    return Anchor.open(this.at(name), check);
  }
}
