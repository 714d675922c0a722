import { describe, expect, test } from 'bun:test'
import type { BounceCategory } from '#features/sending/delivery/bounce-category.ts'
import { classifyReply } from '#features/sending/delivery/classify.ts'
import { isPermanentlyInvalid } from '#features/sending/delivery/permanently-invalid.ts'
import { makeReply } from '#protocols/smtp/replies.ts'

type Phase = Parameters<typeof isPermanentlyInvalid>[1]

/** Lines are separated by ` | `, each with its code. */
function parseReply(text: string) {
  const lines = text.split(' | ')
  return makeReply(
    Number(text.slice(0, 3)),
    lines.map((line) => line.slice(4)),
  )
}

/** Replies of these kinds of servers in their own words; the phase is RCPT unless given. */
const INVALID: Record<string, (string | [string, Phase])[]> = {
  Gmail: [
    '550-5.1.1 The email account that you tried to reach does not exist. Please try | 550-5.1.1 double-checking the recipient address for typos or | 550 5.1.1 unnecessary spaces. https://support.google.com/mail/?p=NoSuchUser a1 - gsmtp',
    '550-5.2.1 The email account that you tried to reach is inactive. For more | 550-5.2.1 information, go to | 550 5.2.1  https://support.google.com/mail/?p=DisabledUser x - gsmtp',
    ['550 5.2.1 The email account that you tried to reach is disabled', 'data'],
    ['550 5.1.1 The email account that you tried to reach does not exist', 'body'],
    '553-5.1.3 The recipient address <a..b@gmail.test> is not a valid RFC 5321 address. For | 553 5.1.3 more information, go to https://support.google.com/a/answer/3221692 gsmtp',
  ],
  Microsoft: [
    '550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302). [BN8NAM11FT047.eop-nam11.prod.protection.outlook.com]',
    '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient x@y.test not found by SMTP address lookup',
    '550 5.1.1 RESOLVER.ADR.RecipNotFound; not found',
    '550 5.4.1 [x@y.test]: Recipient address rejected: Access denied. AS(201806281) [DB5EUR01FT011.eop-EUR01.prod.protection.outlook.com]',
  ],
  'Yahoo and AOL': [
    '554 delivery error: dd Not a valid recipient - atlas-production.v2-mail-prod1-gq1.omega.yahoo.com',
    [
      "554 delivery error: dd This user doesn't have a yahoo.test account (x@yahoo.test) [0] - mta1234.mail.bf1.yahoo.com",
      'body',
    ],
    '552 1 Requested mail action aborted, mailbox not found',
    ['554 30 Sorry, your message to x@yahoo.test cannot be delivered. This mailbox is disabled (554.30).', 'body'],
    '550 5.1.1 <x@aol.test>: Recipient address rejected: aol.test',
  ],
  Postfix: [
    '550 5.1.1 <bob@x.test>: Recipient address rejected: User unknown in virtual mailbox table',
    '550 5.1.1 <x@y.test>: Recipient address rejected: undeliverable address: host z.test said: 550 5.1.1 User unknown',
    '550 5.1.0 <x@y.test>: Recipient address rejected: User unknown in virtual mailbox table',
    '550 <x@y.test>: Recipient address rejected: User unknown in relay recipient table',
    '550 5.1.6 <x@y.test>: Recipient address rejected: User has moved to z@y.test',
  ],
  'servers whose replies contain an address: its words are ignored': [
    '550 <spam@x.test>: Recipient address rejected: User unknown in local recipient table',
    '550 5.2.1 <quota.sender@rate.test>: Mailbox disabled',
    '550 User policy@x.test does not exist',
  ],
  Exim: [
    '550 Unrouteable address',
    '550 Unroutable address',
    '550 No Such User Here',
    '550-Callout verification failed: | 550 550 5.1.1 User unknown',
    '550 "The recipient cannot be verified.  Please check all recipients of this message to verify they are valid."',
  ],
  'qmail and sendmail': [
    '550 sorry, no mailbox here by that name. (#5.1.1)',
    '511 sorry, no mailbox here by that name (#5.1.1 - chkuser)',
    ['554 Sorry, no mailbox here by that name. vpopmail (#5.1.1)', 'body'],
    '550 sorry, that recipient is not on this server (#5.1.1)',
    '550 5.1.1 <x@y.test>... User unknown',
    '553 5.3.0 <x@y.test>... Addressee unknown, relay=[192.0.2.1]',
    '550 5.2.1 <x@y.test>... Mailbox disabled for this recipient',
  ],
  'Cisco, Proofpoint and Mimecast': [
    '550 #5.1.0 Address rejected. x@y.test',
    '550 5.1.1 User Unknown',
    '550 Invalid Recipient - https://community.mimecast.com/docs/DOC-1369#550 [abc.uk123]',
  ],
  'Zoho, GMX, web.de, Telekom, Orange, SFR, La Poste': [
    '550 5.1.1 User does not exist - <x@zoho.test>',
    "541 5.1.1 User's account is disabled",
    '550 Requested action not taken: mailbox unavailable',
    '550 user unknown',
    '550 5.1.1 Adresse d au moins un destinataire invalide. Invalid recipient. OFR_416 [416]',
    '550 Compte utilisateur (x@sfr.test) inconnu',
    '550 5.1.1 <x@laposte.test>: Recipient address rejected: User unknown. LPN007_401',
  ],
  'mail.ru, iCloud, NetEase, Facebook': [
    [
      '550 Message was not accepted -- invalid mailbox.  Local mailbox x@mail.test is unavailable: user not found',
      'body',
    ],
    '550 Message was not accepted -- invalid mailbox. Local mailbox x@mail.test is unavailable: user is terminated',
    '550 5.1.6 recipient no longer on server: x@icloud.test',
    '550 unknown or illegal alias: x@me.test',
    '550 5.2.1 <x@icloud.test>: inactive email address',
    '550 The recipient may contain a non-existent account, please check the recipient address',
    '550 RP:TRC User not found: x@163.test',
    '550 5.1.1 RCP-P1 http://postmaster.facebook.com/response_codes?ip=192.0.2.1#rcp Recipient does not exist',
  ],
  'other languages': [
    '550 Empfänger unbekannt',
    '550 Empf\ufffdnger unbekannt',
    '550 Postfach existiert nicht',
    '550 Utilisateur inconnu',
    '550 Usuario desconocido',
    '550 Buzón no existe',
    '550 Utente sconosciuto',
    '550 Usuário desconhecido',
    '550 Użytkownik nieznany',
    '550 Gebruiker onbekend',
  ],
  others: [
    '550-5.1.1 x',
    '556 5.1.10 Null MX',
    '550 Not our Customer',
    '550 5.0.0 User unknown',
    '550 Unknown local part x in <x@y.test>',
    '550 No such local user',
    '550 Account closed',
    '550 user has left the company',
    '550 x@y.test: account disabled',
    '550 recipient unknown',
    '550 This address no longer accepts mail',
    '550 Mailbox has been disabled',
    '550 User suspended',
    '550 bad destination mailbox address',
    '550 5.1.1 User unknown, do not retry',
    '550 5.2.1 <x@y.test>',
    '550 5.2.1 Mailbox disabled, not accepting messages',
    '550 This address is no longer in use',
    '550 user no longer works here',
    '550 5.1.1 No such user in this domain',
    '501 5.1.3 Bad recipient address syntax',
    '550 5.1.1 User not found in the LDAP directory',
  ],
}

const ALIVE: Record<string, (string | [string, Phase])[]> = {
  'after a reply about a rate, a quota or a temporary state': [
    '550 5.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered. Please resend your message at a later time.',
    '552-5.2.2 The email account that you tried to reach is over quota. Please direct | 552 5.2.2 the recipient to clear it',
    '550 user x has exceeded their disk quota, mailbox unavailable',
    '550 Mailbox unavailable: over quota',
    [
      '550 Message was not accepted -- invalid mailbox.  Local mailbox x@mail.test is unavailable: mailbox is full',
      'body',
    ],
    '550 5.2.1 Mailbox temporarily disabled',
    '550 Too many invalid recipients, no such user',
    '550 MI:SPB 163 smtp, too many invalid recipient',
    '450 4.1.1 User unknown',
    '450 4.2.1 Mailbox disabled for now',
    '550 4.4.1 mailbox not found',
  ],
  'after a reply about a block list or a reputation': [
    '550 5.2.1 Mailbox unavailable. Your IP address 192.0.2.1 is blacklisted using SPAMHAUS-XBL.',
    '521 5.2.1 : (CON:B1) http://postmaster.info.aol.com/errors/521conb1.html',
    '554 5.2.1 RLY:B1',
    '554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org',
    '550 rejected because 192.0.2.1 is in a black list at zen.spamhaus.org',
    '550 permanent failure for one or more recipients (x@y.test:blocked)',
    '550 5.1.1 Message blocked: sender reputation',
    '550 Local CT IP Reputation - (reject)',
  ],
  'after a reply of a server that could not check the mailbox or find the domain': [
    '550 5.1.1 User unknown (temporary failure)',
    '550 No such user (LDAP timeout)',
    '550 5.1.1 User unknown: database lookup failure',
    '550 Mailbox unavailable due to server maintenance',
    '550 Mailbox not available because of database failure',
    '550 5.1.1 <x@y.test>: Recipient address rejected: unverified address: Address verification in progress',
    '550 5.1.1 <x@y.test>: Recipient address rejected: undeliverable address: connect to z.test[192.0.2.1]:25: Connection timed out',
    '550 5.1.1 <x@y.test>: Recipient address rejected: undeliverable address: host z.test said: 554 5.7.1 Service refused, user unknown',
    '550 5.1.1 <x@y.test>: Recipient address rejected: undeliverable address: host z.test said: 451 4.3.0 mailbox unavailable',
    '550 Recipient not found in recipient table of this backup; retry the primary',
    '550 5.1.1 <x@y.test>: Recipient address rejected: Domain not found',
    '550 No such recipient domain',
    '550 Unknown recipient domain',
    '550 recipient domain does not exist',
    '550 5.1.1 TLS required for this recipient',
    '550 Mailbox disabled for unencrypted mail; use TLS',
    '550 5.1.3 Invalid address: SMTPUTF8 required',
  ],
  'after a reply that is not about a mailbox': [
    '503 5.5.1 no valid recipients',
    ['554 5.5.1 Error: no valid recipients', 'data'],
    '503 Bad sequence of commands: no valid recipients',
    '501 Invalid recipient syntax',
    '535 Account disabled',
    '550 Invalid user name or password',
    '550 Bad recipient count',
    '550 account password expired',
    ['554 5.6.0 Invalid recipient header', 'body'],
    ['554 Invalid mailbox in Reply-To header', 'body'],
    '550 Mailbox database is disabled',
    '550 user closed connection',
  ],
  'after a reply with the code of a disabled mailbox and words about something else': [
    '550 5.2.1 The user you are trying to contact is receiving mail too quickly. Please resend your message.',
    '550 5.2.1 Message refused',
    '550 5.2.1 Service unavailable',
    '550 5.2.1 AUTH REQUIRED',
    '550 5.2.1 Delivery not authorized, message refused',
    '550 5.2.1 This system is not configured to relay mail',
    '550 5.2.1 Content Filter agent quarantined this message',
    '550 5.2.1 Refused. The domain example.test has no valid A record',
    '550 5.2.1 System is closed for maintenance',
    '550 5.2.1 Mailbox over its allotted allowance',
  ],
  'after a reply about a kind of mail, or about a limited time': [
    '550 This mailbox is closed for your organization',
    '550 Recipient account is closed to external mail',
    '550 User no longer accepts bulk mail',
    '550 this address no longer accepts attachments',
    '550 Address no longer whitelisted',
    '550 User not found in whitelist',
    '550 mailbox closed until Monday',
    '550 mailbox suspended awaiting verification',
    '550 The user has suspended delivery',
  ],
  'after a reply about spam or content': [
    ['554 5.7.1 Message rejected as spam by content filter', 'body'],
    ['550 spam message rejected. Please visit http://help.mail.ru/notspam-support', 'body'],
    ['554 Message not allowed - [298] Headers are not RFC compliant[291]', 'body'],
    '550 5.1.1 spam content detected',
    "550 5.2.1 Message rejected: blocked by recipient's spam policy",
  ],
  'after a reply about a policy': [
    '550 5.7.1 Message rejected by policy',
    '550 5.7.1 User unknown, or not permitted',
    '571 5.7.1 Mailbox unavailable',
    '550 5.7.26 Unauthenticated email is not accepted',
    '550 #5.7.1 Your access to submit messages to this e-mail system has been rejected. No such user',
    '550 5.4.1 Recipient address rejected: Access denied',
    '550 5.7.64 TenantAttribution; Relay Access Denied',
    '550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required',
    '550 Administrative prohibition',
    '550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550',
    '550 Mailbox unavailable or access denied',
    '554 5.7.1 Relay access denied',
    '550 relay not permitted',
    '550 Your account is disabled',
    '550 This service is no longer available from your network',
    '550 no longer available in this region',
    '550 5.2.1 This mailbox does not accept mail from unverified senders',
  ],
  'after a reply about the sender': [
    '550 5.1.8 Sender domain does not exist',
    '550 5.1.0 <ada@sender.test>: Sender address rejected: User unknown in virtual mailbox table',
    '550 5.1.7 <ada@sender.test>: Sender address rejected: User unknown',
    '550 5.1.1 Sender verify failed: no such user',
    '550-Verification failed for <ada@sender.test> | 550-No Such User Here | 550 Sender verify failed',
    '550 Verification failed for <ada@sender.test>: no such user',
    '550 rejected: no such user in your domain (callback to <ada@sender.test> failed)',
    '550-Requested action not taken: mailbox unavailable | 550-Sender address is not allowed | 550 For explanation visit https://postmaster.gmx.net/en/case',
    '550-Requested action not taken: mailbox unavailable | 550 invalid DNS MX or A/AAAA resource record. For explanation visit https://postmaster.gmx.net/en/case',
    '550 Your HELO name is invalid recipient',
    '550 return path not found: user unknown',
    '550 Reply-To address does not exist',
    '550 Originating address is not registered',
    '550 Your address was not found in our address book',
    '550 IP address 192.0.2.1 is unknown to us',
    '550 Unknown address: 192.0.2.1',
  ],
  'after a reply about a domain or a size, or without a clear cause': [
    '550 5.1.2 The domain does not exist',
    '554 5.1.2 Bad destination host',
    '550 The domain gone.test does not exist',
    '550 5.4.4 Invalid domain',
    '550 Not here',
    '550 Access denied',
    '554 Denied (Mode: normal)',
    ['552 5.3.4 Message too large', 'mail'],
    ['550 5.1.1 User unknown', 'mail'],
    ['554 5.6.7 The receiving server does not take addresses beyond ASCII', 'mail'],
  ],
}

function expectVerdicts(cases: readonly (string | [string, Phase])[], isDead: boolean): void {
  const judged = cases.map((each) => {
    const [text, phase] = typeof each === 'string' ? [each, 'rcpt' as const] : each
    return { text, isDead: isPermanentlyInvalid(parseReply(text), phase) }
  })
  expect(judged).toEqual(judged.map(({ text }) => ({ text, isDead })))
}

describe('the address is permanently invalid', () => {
  // Proves: suppress-8
  test.each(Object.keys(INVALID))('%s', (who) => expectVerdicts(INVALID[who] ?? [], true))
})

describe('the address may be valid', () => {
  // Proves: suppress-8
  test.each(Object.keys(ALIVE))('%s', (what) => expectVerdicts(ALIVE[what] ?? [], false))
})

// Proves: suppress-8
test('bounces of invalid addresses have the category invalid_recipient or inactive_mailbox, and other bounces that of their cause', () => {
  const cases: [string, BounceCategory][] = [
    ['554 delivery error: dd Not a valid recipient', 'invalid_recipient'],
    ['554 Sorry, no mailbox here by that name. (#5.1.1)', 'invalid_recipient'],
    ['550 5.4.1 [x@y.test]: Recipient address rejected: Access denied. AS(201806281) [z]', 'invalid_recipient'],
    ['550 This account has been closed', 'inactive_mailbox'],
    ['550 5.2.1 Mailbox unavailable. Your IP address is blacklisted using SPAMHAUS-XBL', 'reputation'],
    ['450 4.2.1 The user you are trying to contact is receiving mail at a rate that', 'rate_limited'],
    ['550 5.2.1 The email account that you tried to reach is disabled', 'inactive_mailbox'],
    ['550 <spam@x.test>: Recipient address rejected: User unknown', 'invalid_recipient'],
  ]
  expect(cases.map(([text]) => [text, classifyReply(parseReply(text), 'body')])).toEqual(cases)
})

test('only the start of a very long reply is examined', () => {
  const judged = (words: number) => {
    const reply = parseReply(`554 ${'word '.repeat(words)}No such user`)
    return [isPermanentlyInvalid(reply, 'body'), classifyReply(reply, 'body')]
  }
  expect([judged(300), judged(13_000)]).toEqual([
    [true, 'invalid_recipient'],
    [false, 'unknown'],
  ])
})
