/**
 * @module Forwarded mail over real sockets: a Postfix, whose milter is OpenDKIM, is the mail server of a person. What it
 * gets is as the author signed it; bounces, loops and refusals show on the inbound email.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createPrivateKey } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { countQueueEntries } from '#features/receiving/inbound/process/queue.ts'
import { systemClock } from '#platform/time/clock.ts'
import { MiB } from '#platform/units.ts'
import { authenticate } from '#protocols/authentication/authenticate.ts'
import { formatDkimRecord } from '#protocols/dkim/keys.ts'
import { signMessage } from '#protocols/dkim/sign.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { dkimKeyFromFile } from '#test/support/dkim-keys.ts'
import { type DnsServer, startDnsServer } from '#test/support/dns-server.ts'
import { createEmailApi, type EmailApi, expectError, VERIFIED } from '#test/support/email-api.ts'
import { findFreePort } from '#test/support/free-port.ts'
import { isOpenDkimAvailable, type OpenDkim, startOpenDkim } from '#test/support/opendkim.ts'
import { isPostfixAvailable, type Postfix, startPostfix } from '#test/support/postfix.ts'
import { createResolver } from '#test/support/resolver.ts'
import { GTUBE, type RspamdStub, startRspamdStub } from '#test/support/rspamd.ts'
import { type ScriptedSmtp, startScriptedSmtp } from '#test/support/scripted-smtp.ts'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { createTestUser } from '#test/support/users.ts'

const suite = describe.skipIf(!isPostfixAvailable() || !isOpenDkimAvailable())

const PERSON = 'person@corp.test'
const GONE = 'gone@late.test'
const LEAVER = 'leaver@corp.test'
const OURS = { TXT: ['v=spf1 ip4:127.0.0.1 -all'] }
/** Without it, Postfix adds one, which the signature of the author forbids. */
const DATE = 'Date: Mon, 30 Nov 2026 01:19:39 +0000\r\n'
const REPORT = 'Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n'
const REPORTED = `--b\r\n\r\n${GTUBE}\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x.test\r\n\r\nFinal-Recipient: rfc822; y@x.test\r\nAction: failed\r\nStatus: 5.1.1\r\n--b--\r\n`
const HOST = { A: ['127.0.0.1'] }

type Target = Record<'address' | 'status', string> & Record<'email_id' | 'reason', string | null>

suite('a route that forwards', () => {
  let final: ScriptedSmtp
  let milter: OpenDkim
  let postfix: Postfix
  let dns: DnsServer
  let rspamd: RspamdStub
  let service: EmailApi
  let domainId = ''
  let routeId = ''
  let authorKey = ''
  beforeAll(async () => {
    const [postfixPort, inboundPort] = [await findFreePort(), await findFreePort()]
    const author = await dkimKeyFromFile()
    authorKey = author.privateKeyPem
    final = await startScriptedSmtp({ extensions: [], rcpt: '550 5.1.1 <gone@late.test>: user unknown' })
    dns = await startDnsServer({
      'corp.test': HOST,
      'late.test': HOST,
      [VERIFIED]: { ...HOST, ...OURS },
      [`send.${VERIFIED}`]: { ...HOST, ...OURS },
      [`_dmarc.${VERIFIED}`]: { TXT: ['v=DMARC1; p=reject'] },
      'author.test': { TXT: ['v=spf1 -all'] },
      's1._domainkey.author.test': { TXT: [formatDkimRecord(author.publicKey)] },
      '_dmarc.author.test': { TXT: ['v=DMARC1; p=reject'] },
      'spf-only.test': OURS,
      '_dmarc.spf-only.test': { TXT: ['v=DMARC1; p=reject'] },
    })
    rspamd = startRspamdStub(() => {
      const isSpam = rspamd.asked.at(-1)?.message.includes(GTUBE)
      return Response.json({ score: isSpam ? 15 : 0, required_score: 15, action: isSpam ? 'reject' : 'no action' })
    })
    service = await createEmailApi({
      clock: systemClock,
      delivers: true,
      receives: true,
      resolver: createResolver(dns),
      settings: {
        TASSIS_SMTP_PORT: String(postfixPort),
        TASSIS_INBOUND_ADDR: `127.0.0.1:${inboundPort}`,
        TASSIS_RSPAMD_URL: rspamd.url,
      },
    })
    const { app, api, actor, dataDir } = service
    app.db.run('UPDATE domains SET inbound_enabled = 1 WHERE domain = ?', [VERIFIED])
    const own = app.db
      .query<{ selector: string; key: string }, [string]>(
        'SELECT dkim_selector AS selector, dkim_public_key AS key FROM domains WHERE domain = ?',
      )
      .get(VERIFIED)
    const ownRecord = formatDkimRecord(own?.key ?? '')
    Object.assign(dns.zone, { [`${own?.selector}._domainkey.${VERIFIED}`]: { TXT: [ownRecord] } })
    const keys = [
      `s1._domainkey.author.test ${formatDkimRecord(author.publicKey)}`,
      `${own?.selector}._domainkey.${VERIFIED} ${ownRecord}`,
    ]
    writeFileSync(join(dataDir, 'keys'), `${keys.join('\n')}\n`)
    milter = await startOpenDkim('corp.test', {
      Mode: 'v',
      TestPublicKeys: join(dataDir, 'keys'),
      AlwaysAddARHeader: 'yes',
    })
    postfix = await startPostfix({
      mailboxes: [PERSON],
      port: postfixPort,
      messageSizeLimitBytes: 60 * MiB,
      relay: { port: inboundPort, portOf: { [GONE]: final.port } },
      settings: { smtpd_milters: `inet:127.0.0.1:${milter.port}`, virtual_mailbox_limit: '0' },
    })
    for (const email of [PERSON, GONE, LEAVER]) await createTestUser(app, actor, email, 'support')
    const domains = at((await api('GET', '/v1/domains')).body, 'data') as { id: string; domain: string }[]
    domainId = domains.find(({ domain }) => domain === VERIFIED)?.id ?? ''
    routeId = await addRoute('support', [PERSON])
  }, 60_000)
  afterAll(async () => {
    for (const each of [service, postfix, milter, final, rspamd]) await each?.[Symbol.asyncDispose]()
    await dns?.close()
  })

  async function addRoute(pattern: string, forward_to: string[], more = {}): Promise<string> {
    const body = { domain_id: domainId, pattern, match_type: 'exact', forward_to, ...more }
    const answer = await service.api('POST', '/v1/inbound-routes', body)
    expect(answer.status).toBe(201)
    return String(at(answer.body, 'data', 'id'))
  }

  /** Hands in a message; once it is processed, returns the newest inbound emails of the address, newest first. */
  async function receive(localPart: string, mailFrom: string, message: Buffer): Promise<{ id: string }[]> {
    await using client = await connectSmtp(service.inbound?.listener?.port ?? 0)
    await client.reply()
    await client.ask('EHLO mx.author.test', '250')
    await client.ask(`MAIL FROM:<${mailFrom}>`, '250')
    await client.ask(`RCPT TO:<${localPart}@${VERIFIED}>`, '250')
    await client.ask('DATA', '354')
    await client.write(Buffer.from(`${message.toString('latin1').replace(/^\./gm, '..')}.\r\n`, 'latin1'))
    expect(await client.reply()).toStartWith('250')
    await eventually(() => countQueueEntries(service.app.db) === 0, 60_000)
    return listOf(localPart)
  }

  async function listOf(localPart: string): Promise<{ id: string }[]> {
    const all = at((await service.api('GET', '/v1/inbound?per_page=100')).body, 'data') as {
      id: string
      rcpt_to: string[]
    }[]
    return all.filter(({ rcpt_to: [to] }) => to === `${localPart}@${VERIFIED}`)
  }

  const targets = async (id: string | undefined): Promise<Target[]> =>
    at((await service.api('GET', `/v1/inbound/${id}`)).body, 'data', 'forwarded') as Target[]

  const settled = (id: string | undefined): Promise<Target[]> =>
    eventually(async () => {
      const found = await targets(id)
      return found.length > 0 && found.every(({ status }) => !['queued', 'processing'].includes(status)) && found
    }, 60_000)

  const message = (from: string, id: string, more = '', body = 'Hello,\r\n..dots\r\n\r\nJörg\r\n'): Buffer =>
    Buffer.from(
      `Message-ID: <${id}@author.test>\r\nFrom: ${from}\r\nTo: support@${VERIFIED}\r\nSubject: ${id}\r\n${DATE}${more}\r\n${body}`,
    )

  const sign = (text: Uint8Array): Buffer =>
    Buffer.from(signMessage(text, { domain: 'author.test', selector: 's1', privateKey: createPrivateKey(authorKey) }))

  /** The copy that arrived: its header, unfolded, and what follows; and what a target finds out about it. */
  async function arrived(id: string) {
    const raw = await eventually(
      () => postfix.messages(PERSON).find((each) => each.includes(`<${id}@author.test>`)),
      60_000,
    )
    const end = raw.indexOf('\r\n\r\n')
    const header = raw.toString('latin1', 0, end).replace(/\r\n(?=[ \t])/g, '')
    const mailFrom = /^Return-Path: <(.*)>/m.exec(header)?.[1] ?? ''
    // Below the fields of Postfix and its milter.
    const sent = raw.subarray(raw.indexOf('DKIM-Signature: '))
    const facts = { clientIp: '127.0.0.1', helo: 'mail.example.test', mailFrom, hostname: 'mx.corp.test' }
    const results = await authenticate(sent, facts, createResolver(dns), systemClock)
    return { raw, header, body: raw.subarray(end + 4), mailFrom, results }
  }

  // Proves: inbound-41, inbound-45
  test('sends a signed message on as it came, with our return path', async () => {
    expect(at((await service.api('GET', `/v1/inbound-routes/${routeId}`)).body, 'data')).toMatchObject({
      forward_to: [PERSON],
    })
    const original = sign(message('Ada <ada@author.test>', 'signed', 'X-Own: 1\r\n'))
    const [inbound] = await receive('support', 'ada@author.test', original)
    const [target] = await settled(inbound?.id)
    expect(target).toMatchObject({ address: PERSON, status: 'sent', reason: null })
    const { raw, header, mailFrom, results } = await arrived('signed')
    expect(raw.includes(original)).toBe(true)
    expect(mailFrom).toMatch(new RegExp(`^b-[a-z2-7]+@send\\.${VERIFIED}$`))
    expect(header).toMatch(/^Authentication-Results: .*dkim=pass.*header\.d=author\.test/m)
    expect(header).toContain(`header.d=${VERIFIED}`)
    expect(header).not.toContain('ARC-')
    expect(results).toMatchObject({ spf: 'pass', dkim: 'pass', dmarc: 'pass' })
    expect(results.details).toMatchObject({ spf: { domain: `send.${VERIFIED}` }, dmarc: { domain: 'author.test' } })
    const email = await service.detail(target?.email_id)
    expect(email).toMatchObject({ from_address: 'Ada <ada@author.test>', metadata: { inbound_email_id: inbound?.id } })
    const resent = await service.api('POST', `/v1/emails/${target?.email_id}/resend`, {})
    expectError(resent, 409, 'email_forwarded')
    const source = async (key = service.key) =>
      at((await service.api('GET', `/v1/emails/${target?.email_id}/source`, undefined, { key })).body, 'data')
    expect(String(at(await source(), 'source'))).toContain(original.toString())
    expect(at(await source(await service.newKey(['emails:read'])), 'source')).toBeNull()
    await service.api('DELETE', `/v1/inbound/${inbound?.id}`)
    expect(at(await source(), 'source')).toBeNull()
    expect(JSON.stringify(await service.detail(target?.email_id))).not.toContain('message.eml')
  })

  // Proves: inbound-43
  test('puts its own address into From where only SPF made DMARC pass, and none else would be accepted', async () => {
    const text = message('"Ada, Q" <ada@spf-only.test>', 'rewritten')
    await settled((await receive('support', 'ada@spf-only.test', text))[0]?.id)
    const { header, body, results } = await arrived('rewritten')
    expect(header.match(/^From: .*/gm)).toEqual([`From: "Ada, Q via ${VERIFIED}" <support@${VERIFIED}>`])
    expect(header.match(/^Reply-To: .*/gm)).toEqual(['Reply-To: "Ada, Q" <ada@spf-only.test>'])
    expect(body.equals(text.subarray(text.indexOf('\r\n\r\n') + 4))).toBe(true)
    expect(results).toMatchObject({ spf: 'pass', dkim: 'pass', dmarc: 'pass' })
    expect(results.details.dmarc.domain).toBe(VERIFIED)
    const answered = message('Ada <ada@spf-only.test>', 'answered', 'Reply-To: else@spf-only.test\r\n')
    await settled((await receive('support', 'ada@spf-only.test', answered))[0]?.id)
    expect((await arrived('answered')).header.match(/^(?:Reply-To|From): .*/gm)).toEqual([
      `From: "Ada via ${VERIFIED}" <support@${VERIFIED}>`,
      'Reply-To: else@spf-only.test',
    ])
  })

  // Proves: inbound-44
  test.each<[string, string, Buffer, policy?: string]>([
    ['forged', 'It is probably forged', message('ada@author.test', 'forged')],
    ['passed on', 'It was forwarded 3 times', message('a@spf-only.test', 'on', 'X-Tassis-Forwarded: x\r\n'.repeat(3))],
    ['in a loop', 'It has passed 50 servers', message('a@spf-only.test', 'hops', 'Received: by x\r\n'.repeat(50))],
    ['without From', 'It has no valid From', Buffer.from('Subject: x\r\n\r\nHello.\r\n')],
    ['of two authors', 'It has several From', message('a@spf-only.test', '2', `From: boss@${VERIFIED}\r\n`)],
    ['spam', 'It is spam by the verdict', message('ada@spf-only.test', 'spam', '', `${GTUBE}\r\n`)],
    ['cut by a lone CR', 'It has a lone CR', message('a@spf-only.test', 'cr', '', 'Hello.\r\n\r.\rMAIL\r\n')],
    ['cut by a NUL', 'It has a lone CR or a NUL', message('a@spf-only.test', 'nul', '', 'Hello.\r\n\0.\r\n')],
    ['of two domains', 'its DMARC result is permerror', message('a@spf-only.test, b@author.test', 'two')],
    ['spam in a report', 'It is spam', message('a@spf-only.test', 'report', REPORT, REPORTED)],
    ['from us, forged', 'It may be forged', message(`Boss <boss@${VERIFIED}>`, 'boss'), 'none'],
    ['from below us, forged', 'It may be forged', message(`<boss@a.${VERIFIED}>`, 'boss'), 'quarantine'],
  ])('keeps a message that is %s, with the reason', async (_, reason, text, ...[policy = 'reject']) => {
    dns.zone[`_dmarc.${VERIFIED}`] = { TXT: [`v=DMARC1; p=${policy}`] }
    const [inbound] = await receive('support', 'ada@spf-only.test', text)
    dns.zone[`_dmarc.${VERIFIED}`] = { TXT: ['v=DMARC1; p=reject'] }
    expect(await targets(inbound?.id)).toEqual([
      { address: PERSON, email_id: null, status: 'refused', reason: expect.stringContaining(reason) },
    ])
  })

  // Proves: inbound-41
  test('shows the bounce of a target, and sends it nothing more', async () => {
    await addRoute('late', [GONE, PERSON])
    const [inbound] = await receive('late', 'ada@author.test', sign(message('ada@author.test', 'bounced')))
    const [gone, person] = await eventually(async () => {
      const found = await targets(inbound?.id)
      return (
        found.every(({ status }) => ['sent', 'bounced'].includes(status)) && found[0]?.status === 'bounced' && found
      )
    }, 110_000)
    expect(gone).toMatchObject({ address: GONE, reason: expect.stringContaining('user unknown') })
    expect(person?.status).toBe('sent')
    const events = (await service.detail(gone?.email_id))['events'] as { type: string }[]
    expect(events.map(({ type }) => type)).toContain('bounced')
    const [next] = await receive('late', 'ada@author.test', sign(message('ada@author.test', 'after')))
    expect(await settled(next?.id)).toMatchObject([{ status: 'rejected' }, { status: 'sent' }])
  }, 120_000)

  // Proves: inbound-41
  test('leaves the null return path of a bounce null', async () => {
    const [inbound] = await receive('support', '', sign(message('Mailer <daemon@author.test>', 'null')))
    await settled(inbound?.id)
    expect(await arrived('null')).toMatchObject({ mailFrom: '', results: { dmarc: 'pass' } })
  })

  // Proves: inbound-44
  test('ends a circle of two routes where it began', async () => {
    await addRoute('one', [`two@${VERIFIED}`])
    await addRoute('two', [`one@${VERIFIED}`])
    await receive('one', 'ada@author.test', sign(message('ada@author.test', 'circle')))
    const [last] = await eventually(async () => {
      const all = await listOf('one')
      return all.length === 2 && all
    }, 60_000)
    expect((await targets(last?.id))[0]).toMatchObject({
      status: 'refused',
      reason: expect.stringContaining('lead back'),
    })
    expect(await listOf('two')).toHaveLength(1)
  })

  // Proves: inbound-41
  test('sends a large message on unchanged', async () => {
    const line = `${'0123456789'.repeat(7)}\r\n`
    const original = sign(message('ada@author.test', 'large', '', line.repeat((35 * MiB) / line.length)))
    await settled((await receive('support', 'ada@author.test', original))[0]?.id)
    const { raw, results } = await arrived('large')
    expect(raw.includes(original)).toBe(true)
    expect(results).toMatchObject({ dkim: 'pass', dmarc: 'pass' })
  }, 120_000)

  // Proves: inbound-44
  test('forwards nothing that was restored, because it may have been forwarded before', async () => {
    const fence = { fencedAt: 1, lastIds: { inbound_receipts: 1e9 }, released: [] }
    service.app.db.run("INSERT INTO meta (key, value) VALUES ('fence', ?)", [JSON.stringify(fence)])
    const [inbound] = await receive('support', 'ada@author.test', sign(message('ada@author.test', 'restored')))
    service.app.db.run("DELETE FROM meta WHERE key = 'fence'")
    expect(await targets(inbound?.id)).toMatchObject([
      { status: 'refused', reason: expect.stringContaining('restored') },
    ])
  })

  // Proves: inbound-42
  test('forwards to the team and to verified domains only, and no more once a user has left', async () => {
    const body = { domain_id: domainId, pattern: 'open', match_type: 'exact' }
    const create = (forward_to: string[], key = service.key) =>
      service.api('POST', '/v1/inbound-routes', { ...body, forward_to }, { key })
    expectError(await create(['stranger@elsewhere.test']), 422, 'forward_target_unknown', 'forward_to')
    expectError(await create(['nobody']), 422, 'forward_target_unknown', 'forward_to')
    expectError(await create(Array(6).fill(PERSON)), 422, 'validation_failed', 'forward_to')
    expectError(await create([PERSON], await service.newKey(['inbound:write'])), 403, 'insufficient_scope')
    const open = await addRoute('open', ['LEAVER@corp.test', 'Leaver@corp.test', `boss@${VERIFIED}`])
    service.app.db.run('DELETE FROM members WHERE user_id = (SELECT id FROM users WHERE email = ?)', [LEAVER])
    expect((await service.api('PUT', `/v1/inbound-routes/${open}`, { priority: 1 })).status).toBe(200)
    service.app.db.run('UPDATE accounts SET paused_at = 1')
    const [inbound] = await receive('open', 'ada@author.test', sign(message('ada@author.test', 'left')))
    service.app.db.run('UPDATE accounts SET paused_at = NULL')
    expect(await targets(inbound?.id)).toMatchObject([
      { address: 'Leaver@corp.test', status: 'refused', reason: expect.stringContaining('of the team') },
      { address: `boss@${VERIFIED}`, status: 'refused', reason: expect.stringContaining('paused') },
    ])
  })
})
