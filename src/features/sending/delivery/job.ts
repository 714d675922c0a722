/**
 * @module Builds a delivery job from rows: everything that composing, signing and the envelope need, as stored at
 * acceptance. Every attempt has the same job, with one exception: tracked links use the current tracking host of the
 * domain, because links to a removed host would be dead.
 */
import type { App } from '#features/core/app/app.ts'
import type { DraftExtra } from '#features/sending/queue/new-email.ts'
import { findSigningDomain, type SigningDomain } from '#features/setup/domains/sending.ts'
import { computeVerpTag, encodeVerp } from '#protocols/address/verp.ts'
import { isMailboxField } from '#protocols/mime/compose.ts'
import { createComposeJob, readComposableEmail } from './compose-job.ts'
import type { DeliverJob, Route } from './protocol.ts'
import { createBroadcastRenderer, type RenderedMail } from './render-broadcast.ts'

export interface PreparedJob {
  readonly job: DeliverJob
  readonly privateKeyPem: string
  /** Size of bodies and attachments, for the memory budget. */
  readonly sizeBytes: number
  /** Whether other recipients of the email share its body; a shared body is in memory only once. */
  readonly isBodyShared: boolean
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
  readonly #domains = new Map<number, SigningDomain>()
  readonly #verpKey: Uint8Array

  constructor(app: App) {
    this.#app = app
    this.#render = createBroadcastRenderer(app)
    this.#verpKey = app.keys.subkey('verp')
  }

  /** Throws when the email or the key of its domain is missing. */
  build(
    { recipientId, emailId }: { readonly recipientId: number; readonly emailId: number },
    rcptTo: string,
    route: Route,
  ): PreparedJob | UnrenderedJob {
    const { db } = this.#app
    const email = readComposableEmail(db, emailId)
    if (!email) throw new Error('the email is missing')
    const domain = this.#getDomain(email.domainId)
    const extra = JSON.parse(email.extra ?? '{}') as DraftExtra
    const compose = createComposeJob(this.#app, { recipientId, emailId, rcptTo, email, domain, extra })
    const mailboxHeaders = Object.entries(extra.headers ?? {}).flatMap(([name, value]) =>
      isMailboxField(name) ? [value] : [],
    )
    const prepared: PreparedJob = {
      sizeBytes: email.sizeBytes,
      isBodyShared: email.tracked === 0 && email.broadcastId === null,
      privateKeyPem: domain.privateKeyPem,
      job: {
        recipientId,
        emailId,
        accountId: email.accountId,
        route,
        mailFrom: `${encodeVerp({ recipientId, tag: computeVerpTag(email.uuid) }, this.#verpKey)}@${domain.returnPathDomain}`,
        rcptTo,
        // SMTPUTF8 (RFC 6531) is needed for non-ASCII addresses in the envelope and in the header.
        smtpUtf8: [rcptTo, email.from, ...compose.to, ...compose.cc, extra.reply_to ?? '', ...mailboxHeaders].some(
          hasUtf8Address,
        ),
        compose,
        dkim: { domainId: domain.id, domain: domain.domain, selector: domain.selector },
      },
    }
    if (email.broadcastId === null) return prepared
    return { accountId: email.accountId, render: () => applyRendered(prepared, this.#render(emailId, 'bulk')) }
  }

  #getDomain(id: number): SigningDomain {
    const cached = this.#domains.get(id)
    if (cached) return cached
    const domain = findSigningDomain(this.#app.db, this.#app.keys, id)
    if (!domain) throw new Error('the DKIM key of the sending domain is missing')
    if (this.#domains.size >= MAX_CACHED_DOMAINS) this.#domains.clear()
    this.#domains.set(id, domain)
    return domain
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

/** Whether the address itself, not only the display name, has non-ASCII characters. */
function hasUtf8Address(mailboxes: string): boolean {
  if (!NON_ASCII.test(mailboxes)) return false
  return (mailboxes.match(ADDRESS_PATTERN) ?? []).some((address) => NON_ASCII.test(address))
}

const NON_ASCII = /[^\p{ASCII}]/u
const ADDRESS_PATTERN = /(?<![^\s<>,"])[^\s<>,"]+@[^\s<>,"]+/g
