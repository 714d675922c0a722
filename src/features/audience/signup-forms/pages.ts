/**
 * @module /subscribe: the public pages of signup forms. GET shows a form; POST takes what it asks for, as a form or as JSON, also from pages of other sites.
 * A paused account changes nothing here: who signs up is kept, and its mail waits. Never says whether an address may be sent to.
 */
import { Elysia } from 'elysia'
import { type Subscribed, subscribe } from '#features/audience/contact-lists/subscribe.ts'
import type { App } from '#features/core/app/app.ts'
import { listById } from '#features/setup/contact-store/lists.ts'
import { publicHost, trackingHostAccount } from '#features/setup/domains/tracking-domain.ts'
import { AppError, tooMany } from '#platform/errors.ts'
import { errorResponse } from '#platform/http/error-response.ts'
import { type Html, UNLISTED_HEADERS, unlistedResponse } from '#platform/http/html.ts'
import { createNetworkLimiter } from '#platform/http/network-limit.ts'
import { createRateLimiter, type Rate, type RateLimiter } from '#platform/http/rate-limit.ts'
import { clientIpOf, requestContext } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { readAnswer, textOf } from './custom-fields.ts'
import { messageOf } from './messages.ts'
import {
  donePage,
  EMAIL_FIELD,
  type Fault,
  formPage,
  LONGEST_EMAIL,
  noFormPage,
  type Shown,
  TRAP_FIELD,
  tooOftenPage,
} from './page.ts'
import { findFormBySlug, type SignupForm } from './signup-forms.ts'
import { EMBED_QUERY, SUBSCRIBE_PATH } from './urls.ts'

/** Front ends of an account's own post from other sites; nothing here knows who asks, so nobody's rights are lent. */
const CORS = { 'access-control-allow-origin': '*' }
const PREFLIGHT = {
  ...CORS,
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'content-type, accept',
  'access-control-max-age': '86400',
}
const hidden = { detail: { hide: true } }

/** When the account cannot send confirmations; only its owner can change that. */
const RETRY_AFTER_SECONDS = minutes(10) / 1000

/** How many times the mail for one account a network may cause for all accounts: many people share a carrier's address. */
const ALL_ACCOUNTS_FACTOR = 5

const TOO_OFTEN = 'There were too many attempts from your network. Please try again in a minute.'
const GONE = new AppError(404, 'signup_form_not_found', 'This form is not available.')

/** What a post came to. */
type Outcome =
  | { readonly kind: 'done'; readonly status: Subscribed }
  | { readonly kind: 'faults'; readonly faults: readonly Fault[] }
  | { readonly kind: 'refused'; readonly error: AppError }

type NetworkLimiter = ReturnType<typeof createNetworkLimiter>

/** Takes what visitors post, within the limits of their network, of a form and of its account. */
class Signups {
  readonly #app: App
  readonly #posts: NetworkLimiter
  readonly #networkMails: readonly NetworkLimiter[]
  readonly #networkMailsOfAll: readonly NetworkLimiter[]
  readonly #mails: RateLimiter
  readonly #ofAccount: Rate
  /** A form that is attacked leaves something for the others. */
  readonly #ofForm: Rate
  readonly #ownHost: string

  constructor(app: App) {
    const { clock, config } = app
    const mailLimits = [
      within(hours(1), config.formNetworkMailsPerHour),
      within(days(1), config.formNetworkMailsPerDay),
    ]
    this.#app = app
    this.#posts = createNetworkLimiter(clock, within(minutes(1), config.formPostsPerMinute))
    this.#networkMails = mailLimits.map((rate) => createNetworkLimiter(clock, rate))
    this.#networkMailsOfAll = mailLimits.map(({ burst, ratePerSecond }) =>
      createNetworkLimiter(clock, {
        burst: burst * ALL_ACCOUNTS_FACTOR,
        ratePerSecond: ratePerSecond * ALL_ACCOUNTS_FACTOR,
      }),
    )
    this.#mails = createRateLimiter(clock)
    this.#ofAccount = within(hours(1), config.formConfirmationsPerHour)
    this.#ofForm = { burst: Math.ceil(this.#ofAccount.burst / 2), ratePerSecond: this.#ofAccount.ratePerSecond / 2 }
    this.#ownHost = publicHost(config)
  }

  /** Counts a post, whatever becomes of it. */
  takePost(address: string): ReturnType<NetworkLimiter['take']> {
    return this.#posts.take(address)
  }

  /** The form that is to be shown. Under the tracking host of another account it is not there, or anybody could ask under the name of another. */
  formAt(request: Request, slug: string): SignupForm | undefined {
    const form = findFormBySlug(this.#app.db, slug)
    if (!form?.isActive) return undefined
    const { hostname } = new URL(request.url)
    const holder = hostname === this.#ownHost ? undefined : trackingHostAccount(this.#app.db, hostname)
    return holder === undefined || formatUuid(holder) === formatUuid(form.accountUuid) ? form : undefined
  }

  async take(form: SignupForm, fields: Fields, address: string): Promise<Outcome> {
    const list = listById(this.#app.db, form.listId)
    if (!list) return { kind: 'refused', error: GONE }
    if (textOf(fields.given(TRAP_FIELD)) !== '')
      return { kind: 'done', status: list.doubleOptIn ? 'confirmation_sent' : 'subscribed' }
    const invalidEmail = { name: EMAIL_FIELD, message: messageOf(form.messages, 'invalid_email') }
    const email = addressOf(fields.given(EMAIL_FIELD))
    const { metadata, faults } = answersOf(form, fields, this.#app.config.maxMetadataBytes)
    if (email === undefined) return { kind: 'faults', faults: [invalidEmail, ...faults] }
    if (faults.length > 0) return { kind: 'faults', faults }
    try {
      const from = form.fromAddress === null ? {} : { from: form.fromAddress }
      const status = await subscribe(this.#app, {
        list,
        email,
        ...(metadata && { metadata }),
        ...from,
        admit: () => this.#admit(form, address),
      })
      return { kind: 'done', status }
    } catch (error) {
      if (!(error instanceof AppError)) throw error
      if (error.status === 422 && error.code !== 'no_verified_domain') return { kind: 'faults', faults: [invalidEmail] }
      return { kind: 'refused', error: this.#refusalOf(form, error) }
    }
  }

  /**
   * Throws 429 when a network caused too much mail, or strangers from many networks together use up what the account may send, and what its name is worth.
   */
  #admit({ id, uuid, accountId }: SignupForm, address: string): void {
    const limits = [
      ...this.#networkMails.map((limiter) => () => limiter.take(address, accountId)),
      ...this.#networkMailsOfAll.map((limiter) => () => limiter.take(address)),
      () => this.#mails.take(`form ${id}`, 1, this.#ofForm),
      () => this.#mails.take(`account ${accountId}`, 1, this.#ofAccount),
    ]
    for (const take of limits) {
      const decision = take()
      if (decision.ok) continue
      this.#app.log.warn(
        { signupForm: formatUuid(uuid), accountId },
        'signup refused: its network or forms cause too much mail',
      )
      throw tooMany('rate_limited', 'Try again later.', decision.retryAfterSeconds)
    }
  }

  /** What a visitor is told of a refusal that is about the account or the service. */
  #refusalOf(form: SignupForm, { status, code, retryAfterSeconds }: AppError): AppError {
    if (status === 404) return GONE
    const message = messageOf(form.messages, 'error')
    const isPlanFull = code === 'plan_limit_reached'
    if (status !== 422 && !isPlanFull)
      return new AppError(status, code, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
    this.#app.log.warn(
      { signupForm: formatUuid(form.uuid), accountId: form.accountId },
      isPlanFull
        ? 'a signup was refused: the plan of the account has no room for more contacts'
        : 'a signup was refused: the account has no verified domain to send its confirmation from',
    )
    return new AppError(503, code, message, { retryAfterSeconds: RETRY_AFTER_SECONDS })
  }
}

/** The plugin of /subscribe. */
export function subscribePages(app: App) {
  const signups = new Signups(app)
  return new Elysia()
    .get(
      `${SUBSCRIBE_PATH}/:slug`,
      ({ params, query, request }) => {
        const form = signups.formAt(request, params.slug)
        if (!form) return noForm(isEmbed(query))
        const shown = { form, isEmbedded: isEmbed(query, form) }
        return embeddableResponse(shown, formPage(shown))
      },
      hidden,
    )
    .options(
      `${SUBSCRIBE_PATH}/:slug`,
      ({ params, request }) =>
        new Response(null, { status: signups.formAt(request, params.slug) ? 204 : 404, headers: PREFLIGHT }),
      hidden,
    )
    .post(
      `${SUBSCRIBE_PATH}/:slug`,
      async ({ params, query, request, body }) => {
        const isJson = wantsJson(request.headers)
        const form = signups.formAt(request, params.slug)
        if (!form) return isJson ? jsonError(request, GONE) : noForm(isEmbed(query))
        const address = clientIpOf(request)
        const allowed = signups.takePost(address)
        const shown = { form, isEmbedded: isEmbed(query, form) }
        if (!allowed.ok) {
          const error = tooMany('rate_limited', TOO_OFTEN, allowed.retryAfterSeconds)
          return isJson ? jsonError(request, error) : tooOften(shown, error)
        }
        const fields = fieldsOf(body)
        const outcome = await signups.take(form, fields, address)
        return isJson ? jsonOf(request, form, outcome) : pageOf(shown, fields, outcome)
      },
      hidden,
    )
}

/** What is refused so often must cost little: its fields are not looked at, and its page says one thing. */
const tooOften = (shown: Shown, { status, message, retryAfterSeconds }: AppError): Response =>
  embeddableResponse(shown, tooOftenPage(shown.isEmbedded, message), status, {
    'retry-after': String(retryAfterSeconds),
  })

const within = (ms: number, count: number): Rate => ({ burst: count, ratePerSecond: count / (ms / 1000) })

/** Whether the page stands in another one: asked for by its URL, or the form is made for it. */
const isEmbed = (query: Readonly<Record<string, unknown>>, form?: SignupForm): boolean =>
  query[EMBED_QUERY] === '1' || form?.theme.embed === true

/** Whoever posts JSON reads JSON, and so does a script that posts a form and says so. */
function wantsJson(headers: Headers): boolean {
  const accept = headers.get('accept') ?? ''
  return (
    /^\s*application\/(?:[\w.-]+\+)?json\b/i.test(headers.get('content-type') ?? '') ||
    (/\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept))
  )
}

interface Fields {
  given(name: string): unknown
}

function fieldsOf(body: unknown): Fields {
  const fields = typeof body === 'object' && body !== null ? (body as Readonly<Record<string, unknown>>) : {}
  return { given: (name) => (Object.hasOwn(fields, name) ? fields[name] : undefined) }
}

/** The address that was typed; undefined when it is none. */
function addressOf(given: unknown): string | undefined {
  const text = textOf(given)
  if (text === undefined || text === '' || text.length > LONGEST_EMAIL) return undefined
  const mailbox = parseMailbox(text)
  return mailbox.kind === 'ok' && mailbox.name === undefined ? mailbox.address : undefined
}

function answersOf(form: SignupForm, fields: Fields, mostBytes: number) {
  const metadata: Record<string, string | number | boolean> = {}
  const faults: Fault[] = []
  let longest: { name: string; length: number } | undefined
  for (const field of form.customFields) {
    const answer = readAnswer(field, fields.given(field.name))
    if (answer.kind === 'fault') faults.push({ name: field.name, message: answer.message })
    if (answer.kind !== 'value') continue
    metadata[field.name] = answer.value
    const { length } = String(answer.value)
    if (!longest || length > longest.length) longest = { name: field.name, length }
  }
  if (longest && Buffer.byteLength(JSON.stringify(metadata)) > mostBytes)
    faults.push({ name: longest.name, message: 'All fields together are too long.' })
  return { metadata: longest ? metadata : undefined, faults }
}

/** What is said of what became of a post. Whoever has still to confirm is told so, whatever the account says of a success. */
function sentencesOf({ successMessage, messages }: SignupForm, status: Subscribed): string[] {
  switch (status) {
    case 'subscribed':
      return [successMessage ?? 'You are subscribed.']
    case 'confirmation_sent':
      return [...(successMessage === null ? [] : [successMessage]), messageOf(messages, status)]
    case 'confirmation_pending':
    case 'already_subscribed':
      return [messageOf(messages, status)]
  }
}

/** Where a visitor is led now; undefined when there is still something to read. */
function nextOf({ redirectUrl }: SignupForm, status: Subscribed): URL | undefined {
  const isNew = status === 'subscribed' || status === 'confirmation_sent'
  const url = isNew && redirectUrl !== null ? URL.parse(redirectUrl) : null
  return url && /^https?:$/.test(url.protocol) ? url : undefined
}

function pageOf(shown: Shown, fields: Fields, outcome: Outcome): Response {
  const { form, isEmbedded } = shown
  switch (outcome.kind) {
    case 'done': {
      const next = nextOf(form, outcome.status)
      // A frame cannot lead the page around it away, and most pages do not let themselves be shown in one.
      if (next && !isEmbedded)
        return new Response(null, {
          status: 303,
          headers: { ...UNLISTED_HEADERS, 'cache-control': 'no-store', location: next.href },
        })
      return embeddableResponse(shown, donePage(shown, sentencesOf(form, outcome.status), { next, ...fields }))
    }
    case 'faults':
      return embeddableResponse(shown, formPage(shown, { ...fields, faults: outcome.faults }), 422)
    case 'refused': {
      const { status, message, retryAfterSeconds } = outcome.error
      if (status === 404) return noForm(isEmbedded)
      const page = formPage(shown, { ...fields, faults: [], notice: message })
      return embeddableResponse(
        shown,
        page,
        status,
        retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) },
      )
    }
  }
}

function jsonOf(request: Request, form: SignupForm, outcome: Outcome): Response {
  switch (outcome.kind) {
    case 'done': {
      const next = nextOf(form, outcome.status)
      return Response.json(
        {
          message: sentencesOf(form, outcome.status).join(' '),
          status: outcome.status,
          ...(next && { redirect_url: next.href }),
        },
        { headers: { ...CORS, 'cache-control': 'no-store' } },
      )
    }
    case 'faults': {
      const { faults } = outcome
      const isOfEmail = faults[0]?.name === EMAIL_FIELD
      const details = faults.map(({ name, message }) => ({ field: name, message }))
      const message = isOfEmail ? faults[0]?.message : `${faults[0]?.name}: ${faults[0]?.message}`
      const code = isOfEmail ? 'invalid_address' : 'validation_failed'
      return jsonError(request, new AppError(422, code, message ?? '', { details }))
    }
    case 'refused':
      return jsonError(request, outcome.error)
  }
}

function jsonError(request: Request, error: AppError): Response {
  const response = errorResponse(error, requestContext(request)?.requestId ?? '')
  for (const [name, value] of Object.entries(CORS)) response.headers.set(name, value)
  return response
}

const noForm = (isEmbedded: boolean): Response => embeddableResponse({ isEmbedded }, noFormPage(isEmbedded), 404)

/** A page that may stand in any other one, or in none. */
function embeddableResponse(
  { form, isEmbedded }: { readonly form?: SignupForm; readonly isEmbedded: boolean },
  page: Html,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  // Browsers hold the redirect that answers a form to `form-action` too, and each that follows it.
  const redirect = form?.redirectUrl && !isEmbedded ? ` ${/^https:/i.test(form.redirectUrl) ? '' : 'http: '}https:` : ''
  const policy = [
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    'img-src data:',
    `form-action 'self'${redirect}`,
    "base-uri 'none'",
    `frame-ancestors ${isEmbedded ? '*' : "'none'"}`,
  ]
  return unlistedResponse(page, status, { ...headers, 'content-security-policy': policy.join('; ') })
}
