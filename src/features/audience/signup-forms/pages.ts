/**
 * @module /subscribe: the public pages of signup forms. GET shows a form; POST accepts a submission, as a form or as
 * JSON, also from pages of other sites. Works while the account is paused, too: submissions are stored, and their mail
 * waits. Never shows whether an address is suppressed.
 */
import { Elysia } from 'elysia'
import { MAX_METADATA_BYTES } from '#features/audience/contact-lists/model.ts'
import { type SubscribeStatus, subscribe } from '#features/audience/contact-lists/subscribe.ts'
import type { App } from '#features/core/app/app.ts'
import { findListById } from '#features/setup/contact-store/lists.ts'
import { findTrackingHostAccount, getPublicHost } from '#features/setup/domains/tracking-domain.ts'
import { AppError, tooManyRequests } from '#platform/errors.ts'
import { toErrorResponse } from '#platform/http/error-response.ts'
import { type Html, UNLISTED_HEADERS, unlistedResponse } from '#platform/http/html.ts'
import { chooseLanguage, type Language } from '#platform/http/language.ts'
import { createNetworkLimiter, createRateLimiter, type Rate } from '#platform/http/rate-limit.ts'
import { clientIpOf, requestContext } from '#platform/http/request-context.ts'
import { formatUuid } from '#platform/ids.ts'
import { days, hours, minutes } from '#platform/units.ts'
import { parseMailbox } from '#protocols/address/parse.ts'
import { cleanAnswer, readAnswer } from './custom-fields.ts'
import { getMessage } from './messages.ts'
import {
  EMAIL_FIELD,
  EMBED_QUERY,
  type FieldProblem,
  type FormView,
  formNotFoundPage,
  formPage,
  MAX_EMAIL_LENGTH,
  resultPage,
  SUBSCRIBE_PATH,
  TRAP_FIELD,
  tooManyAttemptsPage,
} from './page.ts'
import { findFormBySlug, type SignupForm } from './signup-forms.ts'

/** An account's own front ends post from other sites, without credentials. */
const CORS = { 'access-control-allow-origin': '*' }
const PREFLIGHT = {
  ...CORS,
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'content-type, accept',
  'access-control-max-age': '86400',
}
const hidden = { detail: { hide: true } }

/** Retry-After when the account cannot send confirmations; only its owner can change that. */
const RETRY_AFTER_SECONDS = minutes(10) / 1000

/** Confirmation and welcome emails that posts may cause. */
const LIMITS = {
  /** By posts to the forms of one account; posts to one form may cause at most half of them. */
  accountMailsPerHour: 1000,
  /** By posts from one network to the forms of one account. */
  networkMailsPerHour: 60,
  /** By posts from one network to the forms of all accounts. */
  networkMailsPerDay: 500,
}
export type FormLimits = Readonly<typeof LIMITS>

const TOO_MANY_ATTEMPTS = 'Too many attempts from your network. Please try again in a minute.'
const FORM_NOT_FOUND = new AppError(404, 'signup_form_not_found', 'This form is not available.')

type PostOutcome =
  | { readonly kind: 'done'; readonly status: SubscribeStatus }
  | { readonly kind: 'faults'; readonly problems: readonly FieldProblem[] }
  | { readonly kind: 'refused'; readonly error: AppError }

interface Visitor {
  readonly address: string
  readonly language: Language
}

/** Accepts visitors' posts, within the limits of their network, of the form and of its account. */
function createSignups(app: App, { accountMailsPerHour, networkMailsPerHour, networkMailsPerDay }: FormLimits) {
  const { clock, config } = app
  const postLimiter = createNetworkLimiter(clock, toRate(minutes(1), config.formPostsPerMinute))
  const networkMailLimiter = createNetworkLimiter(clock, toRate(hours(1), networkMailsPerHour))
  const networkDayLimiter = createNetworkLimiter(clock, toRate(days(1), networkMailsPerDay))
  const mailLimiter = createRateLimiter(clock)
  const accountRate = toRate(hours(1), accountMailsPerHour)
  /** Half of the account's rate, so that an attack on one form leaves capacity for the account's other forms. */
  const formRate = toRate(hours(1), Math.ceil(accountMailsPerHour / 2))
  const ownHost = getPublicHost(config)

  /**
   * Throws 429 when a network caused too much mail, or when visitors from many networks together would use up the
   * account's sending limit and reputation.
   */
  const requireMailRate = ({ id, uuid, accountId }: SignupForm, address: string): void => {
    for (const take of [
      () => networkMailLimiter.take(address, accountId),
      () => networkDayLimiter.take(address),
      () => mailLimiter.take(`form ${id}`, 1, formRate),
      () => mailLimiter.take(`account ${accountId}`, 1, accountRate),
    ]) {
      const decision = take()
      if (decision.ok) continue
      app.log.warn(
        { signupForm: formatUuid(uuid), accountId },
        'signup refused: its network or forms cause too much mail',
      )
      throw tooManyRequests('rate_limited', 'Try again later.', decision.retryAfterSeconds)
    }
  }

  /** What a visitor sees of an error that concerns the account or the service. */
  const toVisitorError = (form: SignupForm, { status, code, retryAfterSeconds }: AppError): AppError => {
    if (status === 404) return FORM_NOT_FOUND
    const message = getMessage(form.messages, 'error')
    const isPlanFull = code === 'plan_limit_reached'
    if (status !== 422 && !isPlanFull)
      return new AppError(status, code, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
    app.log.warn(
      { signupForm: formatUuid(form.uuid), accountId: form.accountId },
      isPlanFull
        ? "signup refused: the account's plan allows no more contacts"
        : 'signup refused: the account has no verified domain to send its confirmation from',
    )
    return new AppError(503, code, message, { retryAfterSeconds: RETRY_AFTER_SECONDS })
  }

  return {
    /** Counts a post, whatever its outcome. */
    countPost: (address: string) => postLimiter.take(address),
    /** The form to show; undefined under the tracking host of another account, whose name it could misuse. */
    findForm(request: Request, slug: string): SignupForm | undefined {
      const form = findFormBySlug(app.db, slug)
      if (!form?.isActive) return undefined
      const { hostname } = new URL(request.url)
      const holder = hostname === ownHost ? undefined : findTrackingHostAccount(app.db, hostname)
      return holder === undefined || formatUuid(holder) === formatUuid(form.accountUuid) ? form : undefined
    },
    async subscribePost(form: SignupForm, fields: Fields, { address, language }: Visitor): Promise<PostOutcome> {
      const list = findListById(app.db, form.listId)
      if (!list) return { kind: 'refused', error: FORM_NOT_FOUND }
      if (cleanAnswer(fields.readValue(TRAP_FIELD)) !== '')
        return { kind: 'done', status: list.doubleOptIn ? 'confirmation_sent' : 'subscribed' }
      const invalidEmail = { name: EMAIL_FIELD, message: getMessage(form.messages, 'invalid_email') }
      const email = parseAddress(fields.readValue(EMAIL_FIELD))
      const { metadata, problems } = readAnswers(form, fields)
      if (email === undefined) return { kind: 'faults', problems: [invalidEmail, ...problems] }
      if (problems.length > 0) return { kind: 'faults', problems }
      try {
        const status = await subscribe(app, {
          list,
          email,
          metadata,
          from: form.fromAddress ?? undefined,
          language,
          admit: () => requireMailRate(form, address),
        })
        return { kind: 'done', status }
      } catch (error) {
        if (!(error instanceof AppError)) throw error
        if (error.status === 422 && error.code !== 'no_verified_domain')
          return { kind: 'faults', problems: [invalidEmail] }
        return { kind: 'refused', error: toVisitorError(form, error) }
      }
    },
  }
}

/** Creates the plugin of /subscribe. */
export function subscribePages(app: App, limits: Partial<FormLimits> = {}) {
  const signups = createSignups(app, { ...LIMITS, ...limits })
  return new Elysia()
    .get(
      `${SUBSCRIBE_PATH}/:slug`,
      ({ params, query, request }) => {
        const form = signups.findForm(request, params.slug)
        if (!form) return formNotFoundResponse(isEmbed(query))
        const view = { form, isEmbedded: isEmbed(query, form) }
        return embeddableResponse(view, formPage(view))
      },
      hidden,
    )
    .options(
      `${SUBSCRIBE_PATH}/:slug`,
      ({ params, request }) =>
        new Response(null, { status: signups.findForm(request, params.slug) ? 204 : 404, headers: PREFLIGHT }),
      hidden,
    )
    .post(
      `${SUBSCRIBE_PATH}/:slug`,
      async ({ params, query, request, body }) => {
        const isJson = acceptsJson(request.headers)
        const form = signups.findForm(request, params.slug)
        if (!form) return isJson ? toJsonError(request, FORM_NOT_FOUND) : formNotFoundResponse(isEmbed(query))
        const address = clientIpOf(request)
        const allowed = signups.countPost(address)
        const view = { form, isEmbedded: isEmbed(query, form) }
        if (!allowed.ok) {
          const error = tooManyRequests('rate_limited', TOO_MANY_ATTEMPTS, allowed.retryAfterSeconds)
          return isJson ? toJsonError(request, error) : tooManyAttemptsResponse(view, error)
        }
        const fields = toFields(body)
        const language = chooseLanguage(request.headers.get('accept-language'))
        const outcome = await signups.subscribePost(form, fields, { address, language })
        return isJson ? toJsonResponse(request, form, outcome) : toPageResponse(view, fields, outcome)
      },
      hidden,
    )
}

/** Visitors may cause this error often, so it must be cheap: the fields are not read, and the page has one sentence. */
const tooManyAttemptsResponse = (view: FormView, { status, message, headers }: AppError): Response =>
  embeddableResponse(view, tooManyAttemptsPage(view.isEmbedded, message), status, headers)

const toRate = (ms: number, count: number): Rate => ({ burst: count, ratePerSecond: count / (ms / 1000) })

/** Whether the page is embedded: its URL has the query, or the form's theme sets `embed`. */
const isEmbed = (query: Readonly<Record<string, unknown>>, form?: SignupForm): boolean =>
  query[EMBED_QUERY] === '1' || form?.theme.embed === true

/** Whether the client gets JSON: it posts JSON, or it is a script that posts a form and accepts JSON. */
function acceptsJson(headers: Headers): boolean {
  const accept = headers.get('accept') ?? ''
  return (
    /^\s*application\/(?:[\w.-]+\+)?json\b/i.test(headers.get('content-type') ?? '') ||
    (/\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept))
  )
}

interface Fields {
  readValue(name: string): unknown
}

function toFields(body: unknown): Fields {
  const fields = typeof body === 'object' && body !== null ? (body as Readonly<Record<string, unknown>>) : {}
  return { readValue: (name) => (Object.hasOwn(fields, name) ? fields[name] : undefined) }
}

/** The submitted address; undefined when it is invalid. */
function parseAddress(value: unknown): string | undefined {
  const text = cleanAnswer(value)
  if (text === undefined || text === '' || text.length > MAX_EMAIL_LENGTH) return undefined
  const mailbox = parseMailbox(text)
  return mailbox.kind === 'ok' && mailbox.name === undefined ? mailbox.address : undefined
}

function readAnswers(form: SignupForm, fields: Fields) {
  const metadata: Record<string, string | number | boolean> = {}
  const problems: FieldProblem[] = []
  for (const field of form.customFields) {
    const answer = readAnswer(field, fields.readValue(field.name))
    if (answer.kind === 'fault') problems.push({ name: field.name, message: answer.message })
    if (answer.kind === 'value') metadata[field.name] = answer.value
  }
  const last = Object.keys(metadata).at(-1)
  if (last !== undefined && Buffer.byteLength(JSON.stringify(metadata)) > MAX_METADATA_BYTES)
    problems.push({ name: last, message: 'All fields together are too long.' })
  return { metadata: last === undefined ? undefined : metadata, problems }
}

/** The sentences that report the outcome of a post. A visitor who has to confirm is always asked to. */
function toResultSentences({ successMessage, messages }: SignupForm, status: SubscribeStatus): string[] {
  switch (status) {
    case 'subscribed':
      return [successMessage ?? 'You are subscribed.']
    case 'confirmation_sent':
      return [...(successMessage === null ? [] : [successMessage]), getMessage(messages, status)]
    case 'confirmation_pending':
    case 'already_subscribed':
      return [getMessage(messages, status)]
  }
}

/** Where to redirect a visitor who is new; after any other outcome undefined, because the page must be read. */
function findRedirect({ redirectUrl }: SignupForm, status: SubscribeStatus): URL | undefined {
  const isNew = status === 'subscribed' || status === 'confirmation_sent'
  const url = isNew && redirectUrl !== null ? URL.parse(redirectUrl) : null
  return url && /^https?:$/.test(url.protocol) ? url : undefined
}

function toPageResponse(view: FormView, fields: Fields, outcome: PostOutcome): Response {
  const { form, isEmbedded } = view
  switch (outcome.kind) {
    case 'done': {
      const next = findRedirect(form, outcome.status)
      // No redirect in a frame: it cannot navigate the page around it, and most pages refuse to be framed.
      if (next && !isEmbedded)
        return new Response(null, {
          status: 303,
          headers: { ...UNLISTED_HEADERS, 'cache-control': 'no-store', location: next.href },
        })
      return embeddableResponse(view, resultPage(view, toResultSentences(form, outcome.status), { next, ...fields }))
    }
    case 'faults':
      return embeddableResponse(view, formPage(view, { ...fields, problems: outcome.problems }), 422)
    case 'refused': {
      const { status, message, headers } = outcome.error
      if (status === 404) return formNotFoundResponse(isEmbedded)
      return embeddableResponse(view, formPage(view, { ...fields, problems: [], notice: message }), status, headers)
    }
  }
}

function toJsonResponse(request: Request, form: SignupForm, outcome: PostOutcome): Response {
  switch (outcome.kind) {
    case 'done': {
      const next = findRedirect(form, outcome.status)
      return Response.json(
        {
          message: toResultSentences(form, outcome.status).join(' '),
          status: outcome.status,
          ...(next && { redirect_url: next.href }),
        },
        { headers: { ...CORS, 'cache-control': 'no-store' } },
      )
    }
    case 'faults': {
      const { problems } = outcome
      const isEmailProblem = problems[0]?.name === EMAIL_FIELD
      const details = problems.map(({ name, message }) => ({ field: name, message }))
      const message = isEmailProblem ? problems[0]?.message : `${problems[0]?.name}: ${problems[0]?.message}`
      const code = isEmailProblem ? 'invalid_address' : 'validation_failed'
      return toJsonError(request, new AppError(422, code, message ?? '', { details }))
    }
    case 'refused':
      return toJsonError(request, outcome.error)
  }
}

function toJsonError(request: Request, error: AppError): Response {
  const response = toErrorResponse(error, requestContext(request)?.requestId ?? '')
  for (const [name, value] of Object.entries(CORS)) response.headers.set(name, value)
  return response
}

const formNotFoundResponse = (isEmbedded: boolean): Response =>
  embeddableResponse({ isEmbedded }, formNotFoundPage(isEmbedded), 404)

/** The response with a page. If the page is embedded, any other page may frame it; otherwise no page may. */
function embeddableResponse(
  { form, isEmbedded }: { readonly form?: SignupForm; readonly isEmbedded: boolean },
  page: Html,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  // Browsers apply `form-action` also to the redirect that answers a form, and to each redirect after it.
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
