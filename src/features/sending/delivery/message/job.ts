/**
 * @module Builds a delivery job from rows: everything that composing, signing and the envelope need, as stored at
 * acceptance. Every attempt has the same job, with one exception: tracked links use the current tracking host of the
 * domain, because links to a removed host would be dead.
 */
import type { App } from '#features/core/app/app.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { nameSite } from '#features/sending/transport-security/tls-policy.ts'
import { findSigningDomain, type SigningDomain } from '#features/setup/domains/sending.ts'
import { minutes } from '#platform/units.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import { isMailboxField } from '#protocols/mime/fields.ts'
import type { DeliverJob, DkimKeyPem, Route } from '../model/protocol.ts'
import { createComposeJob, readComposableEmail } from './compose-job.ts'
import { createBroadcastRenderer, type RenderedMail } from './render-broadcast.ts'

export interface PreparedJob {
  readonly job: DeliverJob
  /** The keys that sign the message. */
  readonly keys: readonly DkimKeyPem[]
  /** Size of bodies and attachments, for the memory budget. */
  readonly sizeBytes: number
  /** Whether other recipients of the email share its body; a shared body is in memory only once. */
  readonly isBodyShared: boolean
  /** Present for a report about TLS, which itself is sent without a TLS policy and is not reported. */
  readonly isTlsReport?: true
}

/**
 * The job of a broadcast email, which must be rendered first. `render` rejects like the function of
 * `createBroadcastRenderer`.
 */
export interface UnrenderedJob {
  readonly accountId: number
  render(): Promise<PreparedJob>
}

/** Builds jobs. Caches unsealed keys of domains, because unsealing and parsing a key costs more than a signature. */
export class JobBuilder {
  readonly #app: App
  readonly #render: ReturnType<typeof createBroadcastRenderer>
  readonly #domains = new Map<number, { readonly domain: SigningDomain; readonly readAtMs: number }>()

  constructor(app: App) {
    this.#app = app
    this.#render = createBroadcastRenderer(app)
  }

  /** Throws when the email or the key of its domain is missing. */
  build(
    { recipientId, emailId }: { readonly recipientId: number; readonly emailId: number },
    rcptTo: string,
    route: Route,
  ): PreparedJob | UnrenderedJob {
    const { db, keys: masterKeys } = this.#app
    const email = readComposableEmail(db, emailId)
    if (!email) throw new Error('the email is missing')
    const domain = this.#getDomain(email.domainId)
    const keys = listKeys(domain)
    const extra = JSON.parse(email.extra ?? '{}') as DraftExtra
    const compose = createComposeJob(this.#app, { recipientId, emailId, rcptTo, email, domain, extra })
    const mailboxHeaders = Object.entries(extra.headers ?? {}).flatMap(([name, value]) =>
      isMailboxField(name) ? [value] : [],
    )
    const isTlsReport = extra.of_service === true && extra.report_type === 'tlsrpt'
    const prepared: PreparedJob = {
      sizeBytes: email.sizeBytes,
      isBodyShared: email.tracked === 0 && email.broadcastId === null,
      keys: keys.map(({ id, privateKeyPem }) => ({ id, privateKeyPem })),
      ...(isTlsReport && { isTlsReport }),
      job: {
        recipientId,
        emailId,
        accountId: email.accountId,
        route: isTlsReport ? withoutTlsDemands(route) : route,
        mailFrom: `${encodeVerp({ recipientId, tag: computeVerpTag(email.uuid) }, masterKeys.subkey('verp'))}@${domain.returnPathDomain}`,
        rcptTo,
        // SMTPUTF8 (RFC 6531) is needed for non-ASCII addresses in the envelope and in the header.
        smtpUtf8: [rcptTo, email.from, ...compose.to, ...compose.cc, extra.reply_to ?? '', ...mailboxHeaders].some(
          hasUtf8Address,
        ),
        compose,
        dkim: { domain: domain.domain, keys: keys.map(({ id, selector }) => ({ id, selector })) },
      },
    }
    if (email.broadcastId === null) return prepared
    return { accountId: email.accountId, render: () => applyRendered(prepared, this.#render(emailId, 'bulk')) }
  }

  #getDomain(id: number): SigningDomain {
    const now = this.#app.clock.monotonicMs()
    const cached = this.#domains.get(id)
    if (cached && now - cached.readAtMs < MAX_CACHE_AGE_MS) return cached.domain
    const domain = findSigningDomain(this.#app.db, this.#app.keys, id)
    if (!domain) throw new Error('the DKIM key of the sending domain is missing')
    if (this.#domains.size >= MAX_CACHED_DOMAINS) this.#domains.clear()
    this.#domains.set(id, { domain, readAtMs: now })
    return domain
  }
}

/** RFC 8460 §3: reports are delivered despite any failure of TLS. */
const withoutTlsDemands = (route: Route): Route => {
  const hosts = route.hosts.map(({ host, addresses }) => ({ host, addresses }))
  return {
    ...route,
    hosts,
    site: nameSite(
      hosts.map(({ host }) => host),
      [],
    ),
  }
}

async function applyRendered(prepared: PreparedJob, rendering: Promise<RenderedMail>): Promise<PreparedJob> {
  const { subject, html, text } = await rendering
  const { job } = prepared
  return {
    ...prepared,
    // Counts characters, which roughly equal octets; the budget is an estimate.
    sizeBytes: (html?.length ?? 0) + (text?.length ?? 0),
    job: { ...job, compose: { ...job.compose, subject, rendered: { html, text } } },
  }
}

const MAX_CACHED_DOMAINS = 1000
/** After this long, a domain is read again: a DNS check may have found the record of its second key, or missed it. */
const MAX_CACHE_AGE_MS = minutes(1)

/** Both signatures cover the same fields. RSA comes first, because some receivers verify only the first signatures. */
const listKeys = ({ id, selector, privateKeyPem, ed25519 }: SigningDomain) => [
  { id: `${id}:${selector}`, selector, privateKeyPem },
  ...(ed25519 ? [{ id: `${id}:${ed25519.selector}`, ...ed25519 }] : []),
]

/** Whether the address itself, not only the display name, has non-ASCII characters. */
function hasUtf8Address(mailboxes: string): boolean {
  if (!NON_ASCII.test(mailboxes)) return false
  return (mailboxes.match(ADDRESS_PATTERN) ?? []).some((address) => NON_ASCII.test(address))
}

const NON_ASCII = /[^\p{ASCII}]/u
const ADDRESS_PATTERN = /(?<![^\s<>,"])[^\s<>,"]+@[^\s<>,"]+/g
