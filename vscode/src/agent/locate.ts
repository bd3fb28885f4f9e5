import { messageOf } from "../json.js";
import { call, type Endpoint } from "./call.js";
import { flag, languageServers, type Process } from "./processes.js";
import { workspaceIds } from "./workspaceid.js";

const probeTime = 2_000;
const restTime = 150;
// After a search that found nothing, the next one waits for so long: a search lists all processes.
const emptyTime = 2_000;

// A Locator finds the language server of this window and remembers it until it does not work.
export class Locator {
  private found: Endpoint | undefined;
  private searching: Promise<Endpoint | undefined> | undefined;
  private emptyUntil = 0;
  private reported = "";

  constructor(
    // workspaces are the workspace file and the first folder of the window.
    private readonly workspaces: () => readonly string[],
    private readonly report: (problem: string) => void,
    private readonly list: () => Promise<Process[]> = languageServers,
    private readonly host = process.pid,
  ) {}

  // locate returns where the language server is; undefined: there is none. stale says that the last endpoint does not work.
  async locate(stale = false): Promise<Endpoint | undefined> {
    if (stale) {
      this.found = undefined;
      this.emptyUntil = 0;
    }
    if (this.found !== undefined || Date.now() < this.emptyUntil) {
      return this.found;
    }
    this.searching ??= this.search().finally(() => (this.searching = undefined));
    return this.searching;
  }

  // verified returns the endpoint if it answers within a time; otherwise it searches again.
  async verified(limit: number): Promise<Endpoint | undefined> {
    const last = this.found;
    const works = last !== undefined && (await answers(last, limit));
    return works ? last : this.locate(last !== undefined);
  }

  private async search(): Promise<Endpoint | undefined> {
    try {
      const chosen = choose(await this.list(), this.host, this.workspaces());
      if (typeof chosen === "string") {
        this.say(chosen);
      } else {
        this.found = await probe(chosen);
        this.say(this.found === undefined ? `the language server (process ${chosen.pid}) answers on none of its ports` : "");
      }
    } catch (error) {
      this.say(`searching for the language server failed: ${messageOf(error)}`);
    }
    this.emptyUntil = this.found === undefined ? Date.now() + emptyTime : 0;
    return this.found;
  }

  // say reports a problem once.
  private say(problem: string): void {
    if (problem !== "" && problem !== this.reported) {
      this.report(problem);
    }
    this.reported = problem;
  }
}

// choose returns the language server of a window, or why there is none. It is a child of the extension host. An IDE can have another
// child without a workspace, and one that outlives the IDE is no child: the name of the workspace decides then. It never guesses.
export function choose(all: readonly Process[], host: number, workspaces: readonly string[]): Process | string {
  const ids = workspaces.length === 0 ? [""] : workspaces.flatMap(workspaceIds);
  const fits = (each: Process) => ids.includes(flag(each.args, "workspace_id"));
  const children = all.filter((each) => each.parent === host);
  const rounds = [children.filter(fits), children, workspaces.length === 0 ? [] : all.filter(fits)];
  const candidates = rounds.find((round) => round.length > 0) ?? [];
  // The language server for all windows of an IDE has no flag for this port.
  const ofWindow = candidates.filter((each) => flag(each.args, "https_server_port") !== "");
  const [only, ...more] = ofWindow.length === 1 ? ofWindow : candidates;
  if (only === undefined) {
    return "no language server of this window was found";
  }
  return more.length === 0 ? only : `several language servers match: processes ${candidates.map((each) => each.pid).join(", ")}`;
}

// probe calls each port, with and without TLS, and returns those that answer as a language server does. A port for another protocol
// may never answer: after the first that does, the rest has little time.
async function probe(found: Process): Promise<Endpoint | undefined> {
  const lsp = Number(flag(found.args, "lsp_port"));
  const csrf = flag(found.args, "csrf_token");
  const ports = (await found.ports()).filter((port) => port !== lsp);
  const tries = ports.flatMap((port): Endpoint[] => [{ http: port, https: 0, csrf }, { http: 0, https: port, csrf }]);
  const best = { http: 0, https: 0, csrf };
  await new Promise<void>((resolve) => {
    let open = tries.length;
    const check = (works: boolean, each: Endpoint) => {
      open--;
      if (works) {
        best.http ||= each.http;
        best.https ||= each.https;
        setTimeout(resolve, restTime);
      }
      if (open === 0 || (best.http !== 0 && best.https !== 0)) {
        resolve();
      }
    };
    tries.forEach((each) => void answers(each, probeTime).then((works) => check(works, each)));
    if (open === 0) {
      resolve();
    }
  });
  return best.http === 0 && best.https === 0 ? undefined : best;
}

function answers(endpoint: Endpoint, limit: number): Promise<boolean> {
  return call(endpoint, "Heartbeat", {}, { limit }).then(() => true, () => false);
}
