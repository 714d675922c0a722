/**
 * @module HTML of mail and templates below /app, for frames of the dashboard: for signed-in users of its account only,
 * as restricted as `toContentSecurityPolicy` says. Hidden under the tracking hosts of accounts.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { CONFIRMATION_DAYS, renderConfirmationMail } from '#features/audience/contact-lists/confirmation-mail.ts'
import { linkPage } from '#features/audience/contact-lists/page.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { createBodyReader } from '#features/core/app/stored-content.ts'
import type { AuthContext } from '#features/people/team/auth-context.ts'
import { getMailbox } from '#features/receiving/agent-mailboxes/mailboxes.ts'
import { getMessage } from '#features/receiving/agent-mailboxes/messages.ts'
import { getInbound } from '#features/receiving/inbound/api/inbound-emails.ts'
import { readCapturedHtml } from '#features/sending/capture/captured.ts'
import type { CaptureStore } from '#features/sending/capture/store.ts'
import { getEmail } from '#features/sending/emails/read.ts'
import { type RenderBodies, readEmailBodies } from '#features/sending/emails/wire.ts'
import { previewNewsletter } from '#features/sending/newsletters/preview.ts'
import { askPage, stoppedPage } from '#features/sending/unsubscribe/page.ts'
import { hasScope } from '#features/setup/api-keys/scopes.ts'
import type { PreviewStore } from '#features/setup/templates/preview-store.ts'
import { findLogo, readWording, toShownTexts } from '#features/setup/wording/wording.ts'
import { AppError } from '#platform/errors.ts'
import { escapeHtml, UNLISTED_HEADERS } from '#platform/http/html.ts'
import { parseLanguage } from '#platform/http/language.ts'

const SENDER = 'example.com'
const READER = 'reader@example.net'
const LIST = 'Customers'

/** @param place of the mail or page @throws 404 for an unknown place */
function renderWordingPreview(
  { db }: Pick<App, 'db'>,
  { accountId }: Actor,
  place: string,
  tag: string | undefined,
): string {
  const language = parseLanguage(tag) ?? 'en'
  const texts = toShownTexts(readWording(db, accountId), {
    language,
    sender: SENDER,
    list: LIST,
    // The frame may load nothing.
    toLogoUrl: (hash) => {
      const logo = findLogo(db, hash)
      return logo ? `data:${logo.type};base64,${Buffer.from(logo.bytes).toString('base64')}` : ''
    },
  })
  const subject = { listName: LIST, address: READER, senderDomain: SENDER }
  const subscription = { address: READER, senderDomain: SENDER, isOfPart: true, partName: LIST }
  const mail = { ...subject, url: `https://${SENDER}/confirm`, days: CONFIRMATION_DAYS }
  const places = new Map([
    ['mail', () => renderConfirmationMail(texts, mail).html],
    ['confirm', () => linkPage(texts, 'question', subject).text],
    ['confirmed', () => linkPage(texts, 'confirmed', subject).text],
    ['unsubscribe', () => askPage(texts, subscription).text],
    ['unsubscribed', () => stoppedPage(texts, subscription).text],
  ])
  const render = places.get(place)
  if (!render) throw new AppError(404, 'preview_not_found', 'There is no such mail or page.')
  return render()
}

/** Only our own pages may frame it. */
const toContentSecurityPolicy = (hasPictures: boolean): string =>
  [
    'sandbox',
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    `img-src data:${hasPictures ? ' https: http:' : ''}`,
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'self'",
  ].join('; ')

/**
 * The policy cannot stop `link` from opening connections, nor `meta` from relaxing the referrer policy, nor both in a
 * document inside this one.
 */
const RESOURCE_TAG = /<(?:link|meta|base|i?frame|object|embed)(?=[\s/>])/gi

/** Turns tags that could open connections into `basefont`, which browsers ignore and which has no end tag either. */
const disableResourceTags = (html: string): string => html.replace(RESOURCE_TAG, '<basefont')

/** For text without a font, as in mail programs. It comes last, so that the mode of the page stays that of its author. */
const FONT = '<style>:where(html){font-family:Arial,Helvetica,sans-serif}</style>'

/**
 * A page for a frame of the dashboard: it runs no script, submits no form, opens no window, and loads nothing but, on
 * request, pictures.
 */
const toMailResponse = (html: string, status: number, hasPictures = false): Response =>
  new Response(disableResourceTags(html) + FONT, {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': toContentSecurityPolicy(hasPictures),
      'x-frame-options': 'SAMEORIGIN',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'x-dns-prefetch-control': 'off',
      'cross-origin-resource-policy': 'same-origin',
      ...UNLISTED_HEADERS,
    },
  })

interface MailFrameOptions {
  readonly auth: Pick<AuthContext, 'findActor' | 'requireOwnHost'>
  readonly captures: CaptureStore
  readonly previews: PreviewStore
  readonly renderBodies: RenderBodies
}

type Html = string | null | undefined

/** Throws 404 for what the account does not have. */
type Read = (
  actor: Actor,
  params: Readonly<Record<string, string>>,
  query: Static<typeof QUERY>,
) => Html | Promise<Html>

const QUERY = Type.Object({
  images: Type.Optional(Type.String()),
  contact_email: Type.Optional(Type.String()),
  language: Type.Optional(Type.String()),
})

const listFrames = (
  app: App,
  { captures, previews, renderBodies }: MailFrameOptions,
): readonly (readonly [path: string, scope: string, read: Read])[] => [
  [
    '/app/mail/:id/html',
    'emails:read',
    async ({ accountId }, { id = '' }) =>
      (await readEmailBodies(app, getEmail(app.db, accountId, id), renderBodies)).html,
  ],
  ['/app/captured/:id/html', 'emails:read', (actor, { id = '' }) => readCapturedHtml(app, captures, actor, id)],
  [
    '/app/inbound/:id/html',
    'inbound:read',
    ({ accountId }, { id = '' }) => createBodyReader(app).read(getInbound(app.db, accountId, id).htmlRef),
  ],
  [
    '/app/inbound/mailboxes/:id/messages/:message/html',
    'mailboxes:read',
    ({ accountId }, { id = '', message = '' }) =>
      createBodyReader(app).read(getMessage(app.db, getMailbox(app.db, accountId, id), message).htmlRef),
  ],
  [
    '/app/newsletters/:id/html',
    'contacts:read',
    async (actor, { id = '' }, query) => (await previewNewsletter(app, actor, id, query.contact_email)).parts.html,
  ],
  [
    '/app/wording/:place',
    'account:read',
    (actor, { place = '' }, query) => renderWordingPreview(app, actor, place, query.language),
  ],
  [
    '/app/previews/:id',
    'templates:read',
    ({ accountId }, { id = '' }) => {
      const html = previews.find(accountId, id)
      if (html !== undefined) return html
      throw new AppError(404, 'preview_not_found', 'This preview has expired. Change the text to render it again.')
    },
  ],
]

export function mailFrames(app: App, options: MailFrameOptions) {
  const { auth } = options
  const routes = new Elysia()
  for (const [path, scope, read] of listFrames(app, options))
    routes.get(
      path,
      async ({ request, params, query }) => {
        auth.requireOwnHost(request)
        const actor = auth.findActor(request)
        if (!actor) return toMailResponse('Sign in to see this.', 401)
        if (!hasScope(actor.scopes, scope)) return toMailResponse(`Your role, ${actor.role}, does not show this.`, 403)
        try {
          const html = await read(actor, params, query)
          return html == null
            ? toMailResponse('No HTML of this is stored.', 404)
            : toMailResponse(html, 200, query.images === '1')
        } catch (error) {
          if (error instanceof AppError) return toMailResponse(escapeHtml(error.message), error.status)
          throw error
        }
      },
      { query: QUERY, detail: { hide: true } },
    )
  return routes
}
