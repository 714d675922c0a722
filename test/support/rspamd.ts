/**
 * @module A private rspamd for tests: Debian's program on a free port of 127.0.0.1, with the rules that need no network,
 * in a folder of its own; and a server that lies in its place. Leaves the system's own rspamd alone.
 */
import { afterAll } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from './app.ts'
import { findFreePort } from './free-port.ts'

const PROGRAM = '/usr/bin/rspamd'

export const isRspamdAvailable = (): boolean => existsSync(PROGRAM)

/** The test pattern for spam filters (https://spamassassin.apache.org/gtube/). */
export const GTUBE = 'XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X'

/** A short list of suffixes: that of the package takes nine seconds to compile. DNS is a port where nobody listens. */
const configure = (folder: string, port: number): string => `
options {
  pidfile = "${folder}/pid"; cache_file = "${folder}/symbols.cache"; hs_cache_dir = "${folder}/"; tempdir = "${folder}";
  control_socket = "${folder}/control.sock mode=0600"; url_tld = "${folder}/suffixes"; filters = "chartable,regexp";
  dns { nameserver = ["127.0.0.1:9"]; timeout = 0.1s; retransmits = 1; }
  disable_hyperscan = true; allow_raw_input = true;
}
logging { type = "console"; level = "error"; }
worker "normal" { bind_socket = "127.0.0.1:${port}"; count = 1; }
lua = "/usr/share/rspamd/rules/rspamd.lua";
.include "/etc/rspamd/metrics.conf"
.include "/etc/rspamd/actions.conf"
.include "/etc/rspamd/groups.conf"
.include "/etc/rspamd/composites.conf"
modules { path = "/usr/share/rspamd/plugins/"; }
`

export interface Rspamd extends AsyncDisposable {
  /** For TASSIS_RSPAMD_URL. */
  readonly url: string
}

export async function startRspamd(): Promise<Rspamd> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-rspamd-'))
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  writeFileSync(join(folder, 'suffixes'), 'com\nexample\nnet\norg\ntest\n')
  writeFileSync(join(folder, 'rspamd.conf'), configure(folder, port))
  const child = Bun.spawn([PROGRAM, '-f', '-i', '-c', join(folder, 'rspamd.conf')], {
    stdout: 'ignore',
    stderr: 'pipe',
  })
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(`rspamd ended: ${await child.stderr.text()}`)
    return (await fetch(`${url}/ping`).catch(() => undefined))?.ok
  }, 60_000)
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM')
      await child.exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export interface RspamdStub extends Rspamd {
  readonly asked: { readonly headers: Headers; readonly message: string }[]
  /** The response from now on. */
  answer: () => Response | Promise<Response>
}

export function startRspamdStub(answer: RspamdStub['answer']): RspamdStub {
  const asked: RspamdStub['asked'] = []
  const stub = { answer }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      asked.push({ headers: request.headers, message: await request.text() })
      return stub.answer()
    },
  })
  return Object.assign(stub, {
    url: `http://127.0.0.1:${server.port}`,
    asked,
    [Symbol.asyncDispose]: () => server.stop(true),
  })
}

/** A stub for the tests of a file; its verdict is the response until a test gives another. */
export function shareRspamdStub(verdict: object): RspamdStub {
  const stub = startRspamdStub(() => Response.json(verdict))
  afterAll(() => stub[Symbol.asyncDispose]())
  return stub
}
