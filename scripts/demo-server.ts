/** @module What operators see of the demo: checks, settings, a paused account, mail to postmaster, a DMARC report. */
import { loadConfig } from '#app/settings.ts'
import type { Finding } from '#app/status-routes.ts'
import { createAccount, toOperatorActor } from '#features/people/sub-accounts/sub-accounts.ts'
import { storeOperatorMail } from '#features/receiving/postmaster/store.ts'
import { addFinding, pauseAccount } from '#features/reporting/abuse/pause.ts'
import { formatUuid, newUuid } from '#platform/ids.ts'
import { hours, minutes } from '#platform/units.ts'
import type { EmailApi } from '#test/support/email-api.ts'

const FINDINGS: readonly Finding[] = [
  { check: 'hostname', status: 'ok', subject: null, message: 'mail.acme-shop.example has an address.', fix: null },
  { check: 'reverse_dns', status: 'ok', subject: null, message: '192.0.2.10 names the host.', fix: null },
  { check: 'port_25', status: 'ok', subject: null, message: 'Other servers can be reached.', fix: null },
  { check: 'tls_reports', status: 'skipped', subject: null, message: 'No policy is published.', fix: null },
  {
    check: 'block_lists',
    status: 'failure',
    subject: '192.0.2.10',
    message: '192.0.2.10 is listed by zen.spamhaus.example.',
    fix: 'Find the cause with `tassis complaints`, then ask for its removal.',
  },
]

/** What the HTTP server of the demo is told. */
export const serves = (settings: Readonly<Record<string, string>>) => ({
  settings: loadConfig(settings).report,
  doctorReport: () => ({ checked_at: new Date(Date.now() - minutes(20)).toISOString(), findings: [...FINDINGS] }),
})

export async function seedServer({ app, actor }: EmailApi, domain: string): Promise<Readonly<Record<string, string>>> {
  const now = app.clock.now()
  const shop = await createAccount(app, { name: 'Lucky Deals', email: 'deals@lucky.example', plan: 'free' })
  const source =
    'Return-Path: <>\r\nFrom: Abuse desk <abuse@isp.example>\r\nSubject: Spam\r\n\r\nPlease look into it.\r\n'
  const [rawRef = 0] = await app.rawMail.put([Buffer.from(source)], now)
  const [content = 0] = await app.content.put([Buffer.from('<feedback><record>…</record></feedback>')], now)
  const report = newUuid()
  const envelope = { mailFrom: '', sourceIp: '192.0.2.9', helo: '', tls: null, receivedAt: now, rawRef }
  const store = (kind: 'abuse' | 'postmaster', subject: string, from: string, reason: string) =>
    app.commit.write((tx) =>
      storeOperatorMail(app, tx, {
        ...{ kind, subject, from, reason, rcptTo: [`${kind}@mail.acme-shop.example`] },
        envelope: { ...envelope, sizeBytes: source.length },
      }),
    )
  await app.commit.write((tx) => {
    addFinding(app, tx, {
      ...{ accountId: actor.accountId, source: 'reputation', isPause: false },
      reason: 'The bounce rate of 24 hours is 2.4 %.',
      detail: { bounced: 6, delivered: 244 },
    })
    pauseAccount(app, tx, toOperatorActor(shop), {
      source: 'scam_classifier',
      reason: 'Its mail asks for passwords of a bank.',
      detail: { words: ['verify your account', 'bank'], links: 3 },
    })
    tx.db.run(
      `INSERT INTO provider_pairs (provider, source, factor, rule, reason, suspended_at, suspended_until, duration_ms, failures)
       VALUES ('gmx', '', 0.5, 'rate-limited', '421 4.7.0 Too many messages, slow down', ?, ?, 1000, 1)`,
      [now, now + hours(8)],
    )
    tx.db.run(
      `INSERT INTO received_reports (uuid, kind, account_id, domain, covered_by, organisation, report_id, content_ref, size_bytes, is_imported, created_at)
       VALUES (?, 'dmarc', ?, ?, ?, 'google.com', '1234567890', ?, 1834, 0, ?)`,
      [report, actor.accountId, domain, domain, content, now],
    )
  })
  await store('abuse', 'Spam from your network', 'Abuse desk <abuse@isp.example>', 'To abuse of this host')
  await store('postmaster', 'Mail to us bounces', 'Postmaster <postmaster@company.example>', 'To postmaster')
  const mail = app.db.query<{ uuid: Uint8Array }, []>('SELECT uuid FROM operator_mail').get()
  return {
    pausedAccount: formatUuid(shop.uuid),
    report: formatUuid(report),
    operatorMail: formatUuid(mail?.uuid ?? new Uint8Array(16)),
  }
}
