import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { checkConsistency } from '#app/cli/check.ts'
import { createSequence, recordEvent } from '#features/audience/sequences/sequences.ts'
import { createDomain } from '#features/setup/domains/domains.ts'
import { createTemplate } from '#features/setup/templates/templates.ts'
import { createFolder, KilledService } from '#test/kill/run.ts'
import { startKillSink } from '#test/kill/sink.ts'
import { createTestAccount, createTestApp, eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { seededRandom } from '#test/support/random.ts'

const NAMES = Array.from({ length: 60 }, (_, n) => `p${n}`)
const STEPS = [1, 2, 3]
/** Emails that are accepted when the service is killed: in each step. */
const KILLED_AT = [20, 80, 160]

async function enterAll(dataDir: string): Promise<void> {
  await using service = await createTestApp({ dataDir })
  const { app } = service
  const actor = await createTestAccount(app)
  await createDomain(app, actor, 'sender.test')
  app.db.run('UPDATE domains SET verified_at = 1, next_check_at = 4000000000000')
  for (const step of STEPS) {
    const textBody = `X-Test-Id: {{ n }}-${step}\n\nEnd of {{ n }}-${step}.\n`
    await createTemplate(app, actor, {
      alias: `s${step}`,
      name: 'S',
      subject: `Step ${step}`,
      htmlBody: null,
      textBody,
    })
  }
  const steps = STEPS.map((step) => ({ delay: '1s', template_alias: `s${step}` }))
  await createSequence(app, actor, { name: 'All', from: 'ada@sender.test', event: 'begun', steps, status: 'active' })
  await Promise.all(
    NAMES.map((n) => recordEvent(app, actor, { name: 'begun', email: `${n}@receiver.test`, variables: { n } })),
  )
}

// Proves: sequence-7
test('kill -9 while 60 people are due sends each of them each step exactly once, in order', async () => {
  const folder = createFolder()
  const sink = await startKillSink(seededRandom(1))
  sink.behave({ hold: 0, slow: 0.02, drop: 0, cut: 0 })
  await using dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.test' }] },
    'mx.test': { A: ['127.0.0.1'] },
  })
  const service = await KilledService.make(folder, {
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(sink.port),
    TASSIS_MIN_FREE_DISK: '0',
  })
  try {
    await enterAll(service.file(''))
    for (const count of KILLED_AT) {
      service.begin()
      using db = service.openBooks()
      const emails = db.query<{ n: number }, []>('SELECT count(*) AS n FROM emails')
      await eventually(() => (emails.get()?.n ?? 0) >= count)
      sink.atKill()
      await service.running?.kill()
      await sink.releaseAfterKill()
    }
    service.begin()
    using db = service.openBooks()
    const open = db.query<{ n: number }, []>(
      `SELECT (SELECT count(*) FROM sequence_people WHERE ended_at IS NULL) + (SELECT count(*) FROM recipients WHERE next_at IS NOT NULL) AS n`,
    )
    await eventually(() => open.get()?.n === 0)
    await service.running?.kill()
    const sent = db
      .query<{ address: string; subjects: string; uncertain: string | null }, []>(
        `SELECT address, group_concat(subject, ',' ORDER BY emails.id) AS subjects,
           group_concat(iif(delivered_at IS NULL, substr(address, 1, instr(address, '@') - 1) || '-' || substr(subject, 6), NULL)) AS uncertain
         FROM (SELECT emails.id, address, subject, recipients.delivered_at FROM emails JOIN recipients ON email_id = emails.id) emails GROUP BY address`,
      )
      .all()
    expect(sent.length).toBe(NAMES.length)
    expect([...new Set(sent.map(({ subjects }) => subjects))]).toEqual([STEPS.map((step) => `Step ${step}`).join()])
    // What the receiver got: once each; what was in DATA at a kill is uncertain, and never sent again.
    const uncertain = new Set(sent.flatMap((one) => one.uncertain?.split(',') ?? []))
    const received = sink.transactions.filter((one) => one.received).map(({ testId }) => testId)
    expect(received.length).toBe(new Set(received).size)
    const wanted = NAMES.flatMap((n) => STEPS.map((step) => `${n}-${step}`))
    expect(wanted.filter((id) => !received.includes(id) && !uncertain.has(id))).toEqual([])
    expect(uncertain.size).toBeLessThan(NAMES.length)
    expect(checkConsistency(db).filter(({ differences }) => differences.length > 0)).toEqual([])
  } finally {
    await service.running?.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}, 300_000)
