/**
 * @module Proves from the outside that no 202 is sent before its email is on disk: the service runs under strace, and
 * in the order of system calls every 202 follows the sync that covers the email's row, which follows the sync that
 * covers its content.
 */
import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '#test/support/free-port.ts'
import { prepareDataDirectory, SENDER_DOMAIN, type Settings } from '../kill/service.ts'
import { type Call, parseTrace, STRACE_ARGUMENTS } from './trace.ts'

const EMAILS = 200
const SENDERS = 20
const CHILD = join(import.meta.dir, 'child.ts')

const strace = Bun.which('strace')
if (!strace) console.error('skipped: durability under strace, because strace is not installed')

/** Part of the recipient's address, so it appears in the row and in the 202. */
const rowMark = (number: number) => `row-${String(number).padStart(6, '0')}@`
/** Part of a text that is too short to be compressed. */
const contentMark = (number: number) => `content-${String(number).padStart(6, '0')}.`

/** Where each step of one email happened, as lines of the trace. */
interface Proof {
  readonly contentSynced: number
  readonly rowWritten: number
  readonly rowSynced: number
  readonly answered: number
}

// Proves: send-3
test.skipIf(!strace)(
  'under strace every 202 follows the sync of its row, and every row the sync of its content',
  async () => {
    const calls = await traceAcceptance(strace ?? '')
    const proofs = Array.from({ length: EMAILS }, (_, number) => findProof(calls, number))
    expect(proofs.filter((proof) => typeof proof === 'string')).toEqual([])
    const complete = proofs.filter((proof): proof is Proof => typeof proof !== 'string')
    expect(
      complete.filter(
        ({ contentSynced, rowWritten, rowSynced, answered }) => contentSynced >= rowWritten || rowSynced >= answered,
      ),
    ).toEqual([])
    // Many emails share a sync; otherwise this would not prove group commit.
    expect(new Set(complete.map(({ rowSynced }) => rowSynced)).size).toBeLessThan(EMAILS)
  },
  300_000,
)

/** The proof for one email, or what is missing. */
function findProof(calls: readonly Call[], number: number): Proof | string {
  const content = findFirstWrite(calls, '/content/', contentMark(number))
  const row = findFirstWrite(calls, '/tassis.db-wal', rowMark(number))
  const answer = calls.find(
    ({ path, data }) => !path.endsWith('-wal') && data.includes('HTTP/1.1 202') && data.includes(rowMark(number)),
  )
  if (!content) return `${number}: its content was not seen in a write-ahead log`
  if (!row) return `${number}: its row was not seen in a write-ahead log`
  if (!answer) return `${number}: its 202 was not seen`
  const contentSync = findCoveringSync(calls, content)
  const rowSync = findCoveringSync(calls, row)
  if (!contentSync) return `${number}: no sync covers its content`
  if (!rowSync) return `${number}: no sync covers its row`
  return {
    contentSynced: contentSync.ended,
    rowWritten: row.begun,
    rowSynced: rowSync.ended,
    answered: answer.begun,
  }
}

const findFirstWrite = (calls: readonly Call[], path: string, mark: string): Call | undefined =>
  calls.find((call) => call.path.includes(path) && call.path.endsWith('-wal') && call.data.includes(mark))

/** The first successful sync of the log that began after the last page of the transaction to which `page` belongs. */
function findCoveringSync(calls: readonly Call[], page: Call): Call | undefined {
  const ofLog = calls.filter(({ path }) => path === page.path)
  // A frame is written in two calls: its header, then its page.
  const header = ofLog.indexOf(page) - 1
  const commit = ofLog.findIndex((call, index) => index >= header && isCommitFrame(call))
  const lastPage = commit < 0 ? undefined : ofLog[commit + 1]
  return (
    lastPage && ofLog.find(({ name, result, begun }) => name === 'fdatasync' && result === 0 && begun > lastPage.ended)
  )
}

/**
 * A frame's header has 24 octets; 4 to 7 are the size of the database after the commit, or 0.
 * https://sqlite.org/fileformat2.html#walformat
 */
const isCommitFrame = ({ name, data }: Call): boolean =>
  name === 'pwrite64' && data.length === 24 && data.readUInt32BE(4) !== 0

async function traceAcceptance(program: string): Promise<Call[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tassis-strace-'))
  const port = await findFreePort()
  const settings: Settings = {
    PATH: process.env['PATH'] ?? '',
    TASSIS_DATA_DIR: join(folder, 'data'),
    TASSIS_HTTP_ADDR: `127.0.0.1:${port}`,
    TASSIS_HOSTNAME: 'mail.tassis.test',
    TASSIS_DNS_SERVERS: '127.0.0.1:9',
    TASSIS_MIN_FREE_DISK: '0',
    TASSIS_LOG_LEVEL: 'error',
    // The system calls of Workers do not matter here, so one Worker is enough.
    TASSIS_WORKERS: '1',
  }
  try {
    const key = await prepareDataDirectory(settings)
    const traceFile = join(folder, 'trace')
    const traced = Bun.spawn(
      [
        program,
        ...STRACE_ARGUMENTS,
        ...['-e', 'trace=pwrite64,pwritev,fdatasync,write,writev,sendto,sendmsg'],
        ...['-o', traceFile, process.execPath, CHILD],
      ],
      { env: settings, stdout: 'pipe', stderr: 'inherit' },
    )
    const output = traced.stdout.getReader()
    let ready = ''
    while (!ready.includes('\n')) {
      const { value, done } = await output.read()
      if (done) throw new Error('the service did not start under strace')
      ready += new TextDecoder().decode(value)
    }
    await sendAll(`http://127.0.0.1:${port}`, key)
    process.kill(Number(/^ready (\d+)/.exec(ready)?.[1]), 'SIGTERM')
    await traced.exited
    return parseTrace(readFileSync(traceFile, 'latin1'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function sendAll(url: string, key: string): Promise<void> {
  let next = 0
  const send = async () => {
    while (next < EMAILS) {
      const number = next++
      const response = await fetch(`${url}/v1/emails`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          from: `test@${SENDER_DOMAIN}`,
          to: `${rowMark(number)}receiver.test`,
          subject: 'Test',
          text_body: contentMark(number),
          // Held: only acceptance matters.
          send_at: new Date(Date.now() + 86_400_000).toISOString(),
        }),
      })
      expect({ status: response.status, body: (await response.text()).slice(0, 60) }).toMatchObject({ status: 202 })
    }
  }
  await Promise.all(Array.from({ length: SENDERS }, send))
}
