import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { createFolder, KilledService } from '#test/kill/run.ts'
import { prepareDataDirectory } from '#test/kill/service.ts'
import { startKillSink } from '#test/kill/sink.ts'
import { eventually } from '#test/support/app.ts'
import { startDnsServer } from '#test/support/dns-server.ts'
import { seededRandom } from '#test/support/random.ts'

const PEOPLE = 100
const STEPS = [1, 2, 3]
/** Emails that are accepted when the service is killed: in each step. */
const KILLED_AT = [30, 130, 260]

// Proves: sequence-7
test('kill -9 while 100 people are due sends each of them each step exactly once, in order', async () => {
  const folder = createFolder()
  const sink = await startKillSink(seededRandom(1))
  sink.behave({ hold: 0, slow: 0.02, drop: 0, cut: 0 })
  const dns = await startDnsServer({
    'receiver.test': { MX: [{ preference: 10, exchange: 'mx.test' }] },
    'mx.test': { A: ['127.0.0.1'] },
  })
  const service = await KilledService.make(folder, {
    TASSIS_DNS_SERVERS: dns.address,
    TASSIS_SMTP_PORT: String(sink.port),
    TASSIS_MIN_FREE_DISK: '0',
  })
  try {
    const key = await prepareDataDirectory(service.settings)
    await service.start()
    const post = async (path: string, body: object) => {
      const response = await fetch(service.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      if (!response.ok) throw new Error(await response.text())
    }
    for (const step of STEPS)
      await post('/v1/templates', {
        ...{ alias: `step-${step}`, name: `Step ${step}`, subject: `Step ${step}` },
        text_body: `X-Test-Id: {{ n }}-${step}\n\nEnd of {{ n }}-${step}.\n`,
      })
    const steps = STEPS.map((step) => ({ delay: 1, template_alias: `step-${step}` }))
    await post('/v1/sequences', { name: 'All', from: 'ada@sender.test', event: 'begun', steps, status: 'active' })
    const names = Array.from({ length: PEOPLE }, (_, n) => `p${n}`)
    await Promise.all(
      names.map((n) => post('/v1/sequences/events', { name: 'begun', email: `${n}@receiver.test`, variables: { n } })),
    )
    for (const count of KILLED_AT) {
      using db = service.openBooks()
      const emails = db.query<{ n: number }, []>('SELECT count(*) AS n FROM emails')
      await eventually(() => (emails.get()?.n ?? 0) >= count, 60_000)
      sink.atKill()
      await service.running?.kill()
      await sink.releaseAfterKill()
      await service.start()
    }
    {
      using db = service.openBooks()
      const open = db.query<{ n: number }, []>(
        `SELECT (SELECT count(*) FROM sequence_people WHERE status <> 'finished') + (SELECT count(*) FROM recipients WHERE next_at IS NOT NULL) AS n`,
      )
      await eventually(() => open.get()?.n === 0, 120_000)
      const sent = db
        .query<{ address: string; subjects: string; uncertain: string | null }, []>(
          `SELECT address, group_concat(subject, ',' ORDER BY emails.id) AS subjects,
             group_concat(iif(delivered_at IS NULL, substr(address, 1, instr(address, '@') - 1) || '-' || substr(subject, 6), NULL)) AS uncertain
           FROM (SELECT emails.id, address, subject, recipients.delivered_at FROM emails JOIN recipients ON email_id = emails.id) emails GROUP BY address`,
        )
        .all()
      expect(sent.length).toBe(PEOPLE)
      expect([...new Set(sent.map(({ subjects }) => subjects))]).toEqual([STEPS.map((step) => `Step ${step}`).join()])
      // What the receiver got: once each; what was in DATA at a kill is uncertain, and never sent again.
      const uncertain = new Set(sent.flatMap((one) => one.uncertain?.split(',') ?? []))
      const received = sink.transactions.filter((one) => one.received).map(({ testId }) => testId)
      expect(received.length).toBe(new Set(received).size)
      const missing = sent.flatMap(({ address }) => STEPS.map((step) => `${address.split('@')[0]}-${step}`))
      expect(missing.filter((id) => !received.includes(id) && !uncertain.has(id))).toEqual([])
      expect(uncertain.size).toBeLessThan(PEOPLE)
    }
    expect(await service.stop()).toEqual([])
  } finally {
    await service.running?.kill()
    await dns[Symbol.asyncDispose]?.()
    rmSync(folder, { recursive: true, force: true })
  }
}, 300_000)
