/**
 * @module Makes the data directory that `upgrade.test.ts` opens: mail in every state that an upgrade can meet. At each
 * release, `bun test/upgrade/make-data.ts test/upgrade/0.1.0` stores that of the version; the files are never changed
 * afterwards, because they are the proof.
 */
import { Database } from 'bun:sqlite'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { randomBelow } from '#platform/ids.ts'
import { systemClock } from '#platform/time/clock.ts'
import { days } from '#platform/units.ts'
import { StubResolver } from '#protocols/dns/resolver.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, UNVERIFIED } from '#test/support/email-api.ts'
import { ManualClock } from '#test/support/manual-clock.ts'
import { startScriptedSmtp } from '#test/support/scripted-smtp.ts'

/** The time at which the directory was in use. */
const MADE_AT = Date.UTC(2026, 0, 15, 10)

export interface Facts {
  /** The last time shown by its clock. */
  readonly endedAt: number
  /** API key of the account with the mail. */
  readonly key: string
  readonly ids: Readonly<
    Record<'delivered' | 'bounced' | 'captured' | 'cancelled' | 'operation' | 'scheduled' | 'deferred', string>
  >
}

/** Fills a new data directory, which the caller removes, and stops the service. */
export async function makeData(): Promise<{ dataDir: string; facts: Facts }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tassis-upgrade-'))
  const clock = new ManualClock(MADE_AT)
  const ids: Partial<Record<keyof Facts['ids'], string>> = {}
  await using dns = await startDnsServer({ 'receiver.test': { A: ['127.0.0.1'] } })
  await using server = await startScriptedSmtp({
    rcpt: (line) =>
      line.includes('unknown@')
        ? '550 5.1.1 No such user here'
        : line.includes('later@')
          ? '450 4.2.0 Greylisted'
          : '250 2.1.5 Recipient ok',
  })
  const resolver = new StubResolver({
    servers: [dns.address],
    clock: systemClock,
    randomId: () => randomBelow(65_536),
  })
  const service = await createEmailApi({
    clock,
    dataDir,
    delivers: true,
    resolver,
    settings: { TASSIS_SMTP_PORT: String(server.port) },
  })
  const { api, accepted, detail } = service
  const settled = (id: string) =>
    eventually(async () => {
      const { status, attempts, next_retry_at: next } = await detail(id)
      return (status !== 'queued' && status !== 'processing') || (attempts === 1 && next !== null)
    })
  const keep = async (name: keyof Facts['ids'], request: Record<string, unknown>, options = {}) => {
    const { id } = await accepted(request, options)
    ids[name] = id
    if (request['send_at'] === undefined) await settled(id)
    clock.advance(1000)
  }
  await api('POST', '/v1/streams', { slug: 'receipts', name: 'Receipts' })
  await keep(
    'delivered',
    {
      html_body: '<p>Hello, <a href="https://shop.test/">Bob</a>.</p>',
      attachments: [
        { filename: 'note.txt', content_type: 'text/plain', content: Buffer.from('A note.').toString('base64') },
      ],
      tags: ['first', 'second'],
      metadata: { order: 7 },
      stream: 'receipts',
    },
    { headers: { 'idempotency-key': 'kept' } },
  )
  await keep('bounced', { to: 'unknown@receiver.test' })
  await keep('captured', { from: `ada@${UNVERIFIED}` })
  await keep('cancelled', { send_at: new Date(clock.now() + days(1)).toISOString() })
  await api('POST', `/v1/emails/${ids.cancelled}/cancel`)
  const batch = await api('POST', '/v1/emails/batch', {
    emails: [{ from: 'ada@sender.test', to: 'batch@receiver.test', subject: 'Batch', text_body: 'One of many.' }],
  })
  ids.operation = String(at(batch.body, 'operation_id'))
  await settled(String(at(batch.body, 'data', 0, 'id')))
  await keep('scheduled', { to: 'soon@receiver.test', send_at: new Date(clock.now() + days(1)).toISOString() })
  await keep('deferred', { to: 'later@receiver.test', text_body: 'Try again.' })
  await service[Symbol.asyncDispose]()
  return { dataDir, facts: { endedAt: clock.now(), key: service.key, ids: ids as Facts['ids'] } }
}

/** Writes the files of the directory, compressed, and the facts into a folder. */
async function pack(folder: string): Promise<void> {
  const { dataDir, facts } = await makeData()
  for (const file of readdirSync(dataDir, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(db|key)$/.test(file)) continue
    if (file.endsWith('.db')) {
      using db = new Database(join(dataDir, file))
      db.run('PRAGMA wal_checkpoint(TRUNCATE)')
    }
    const target = join(folder, `${file}.zst`)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, await Bun.zstdCompress(readFileSync(join(dataDir, file)), { level: 19 }))
  }
  writeFileSync(join(folder, 'facts.json'), `${JSON.stringify(facts, null, 2)}\n`)
  rmSync(dataDir, { recursive: true, force: true })
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2)
  if (folder === undefined) throw new Error('name the folder for the files as the first argument')
  await pack(folder)
}
