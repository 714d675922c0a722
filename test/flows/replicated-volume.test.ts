/**
 * @module The data directory on a replicated volume: after a power cut another machine goes on with what was synced, and
 * is refused as long as the first may still use it. The volume is a file system that loses everything unsynced; the
 * machines are processes that see another machine-id and boot_id.
 */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createFolder } from '#test/support/folder.ts'
import { seededRandom } from '#test/support/random.ts'
import { createMachine, createVolume, findVolumeObstacle } from '#test/support/volume.ts'
import { runTassisProcess, type Settings, startServing } from '../app/process.ts'
import { judgeRound } from '../kill/judge.ts'
import { RECEIVER_DOMAIN, type Sent, startLoad } from '../kill/load.ts'
import { prepareDataDirectory } from '../kill/service.ts'
import { startKillSink } from '../kill/sink.ts'
import { countOpen, findImbalances, readStoredMail } from '../kill/stored-mail.ts'

const obstacle = findVolumeObstacle()
if (obstacle !== undefined) console.error(`skipped: replicated volumes, because ${obstacle}`)

/** Accepted mail after which all kinds of work are in progress. */
const MIN_ACCEPTED = 150
const RETRY_DELAY_MS = 1000
const REFUSAL =
  /Another machine \(machine-id \w+, process \d+\) used \S+ \d+ s ago\. .* if it is gone, start again in 30 s\./

test.concurrent.skipIf(obstacle !== undefined).each([
  ['the power fails', true],
  ['its volume is detached by force and it lives on', false],
])(
  'when %s, another machine is refused for 30 s, then has every accepted email, and none is sent twice',
  async (_, diesAtCut) => {
    using volume = createVolume()
    using folder = createFolder()
    const random = seededRandom(33)
    const sink = await startKillSink(random)
    await using dns = await startDnsServer({ [RECEIVER_DOMAIN]: { A: ['127.0.0.1'] } })
    const createSettings = (): Settings => ({
      TASSIS_DATA_DIR: join(volume.path, 'data'),
      TASSIS_HTTP_ADDR: '127.0.0.1:0',
      TASSIS_HOSTNAME: 'mail.tassis.test',
      TASSIS_ALLOW_PRIVATE_NETWORKS: 'true',
      TASSIS_LOG_LEVEL: 'silent',
      TASSIS_MIN_FREE_DISK: '0',
      TASSIS_DNS_SERVERS: dns.address,
      TASSIS_SMTP_PORT: String(sink.port),
    })
    const key = await prepareDataDirectory(createSettings())
    const sent = new Map<string, Sent>()

    await using first = await startServing(createSettings(), 'serve', { prefix: createMachine(folder.path, 'first') })
    sink.behave({ hold: 0.2, slow: 0.2, drop: 0, cut: 0 })
    const load = startLoad(first.url, key, random, 'r', sent)
    const countAccepted = () => [...sent.values()].filter(({ outcome }) => outcome === 'accepted').length
    await eventually(() => countAccepted() >= MIN_ACCEPTED && sink.inData().length > 0)
    volume.cut()
    const { undecided } = sink.atKill()
    const excused = new Set([...undecided.values()].flat().map(({ recipient }) => recipient))
    sink.behave({ hold: 0, slow: 0, drop: 0, cut: 0 })
    if (diesAtCut) await first[Symbol.asyncDispose]()
    volume.attach()

    const prefix = [...createMachine(folder.path, 'second'), 'sh', '-c', 'exec "$0" "$@" 2>&1']
    const startSecond = () => startServing(createSettings(), 'serve', { prefix }).catch(({ message }: Error) => message)
    let started = await startSecond()
    expect(started).toMatch(REFUSAL)
    while (typeof started === 'string') {
      expect(started).toMatch(REFUSAL)
      await Bun.sleep(RETRY_DELAY_MS)
      started = await startSecond()
    }
    await using second = started
    // A service without its disk is not ready, or has ended because a sync failed.
    expect(
      await fetch(`${first.url}/readyz`).then(
        ({ status }) => status,
        () => 503,
      ),
    ).toBe(503)
    await load.stop()
    await first[Symbol.asyncDispose]()
    await sink.releaseAfterKill()
    // An error of a machine without its disk promises nothing.
    for (const entry of sent.values()) if (entry.outcome === 'refused') entry.outcome = 'unanswered'

    using db = new Database(join(volume.path, 'data/tassis.db'), { readonly: true })
    await eventually(() => countOpen(db, Date.now()) === 0)
    const { byId: stored, twice: storedTwice } = readStoredMail(db)
    const { transactions } = sink
    const { violations, totals } = judgeRound({ sent, stored, storedTwice, transactions, excused, now: Date.now() })
    expect([...violations, ...findImbalances(db)]).toEqual([])
    expect(totals.accepted).toBeGreaterThanOrEqual(MIN_ACCEPTED)

    // After an orderly stop the next machine need not wait.
    second.signal('SIGTERM')
    expect(await second.exited).toBe(0)
    expect(await runTassisProcess(['check'], createSettings())).toMatchObject({ exitCode: 0, stderr: '' })
  },
  300_000,
)
