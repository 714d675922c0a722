/** @module All routes of Postmark's interface; here /server. */
import { getAccount } from '#features/core/accounts/accounts.ts'
import type { App } from '#features/core/app/app.ts'
import { bounceRoutes } from './bounces.ts'
import { POSTMARK_PREFIX } from './dialect.ts'
import { messageRoutes, type PostmarkMessageOptions } from './messages.ts'
import { type Call, createRoutes, on } from './route.ts'
import { type PostmarkSendOptions, sendRoutes } from './send.ts'
import { suppressionRoutes } from './suppressions.ts'
import { templateRoutes } from './templates.ts'

export const postmarkRoutes = (app: App, options: PostmarkSendOptions & PostmarkMessageOptions) =>
  createRoutes(
    app,
    [POSTMARK_PREFIX],
    [
      ...messageRoutes(options),
      ...bounceRoutes,
      ...suppressionRoutes,
      ...templateRoutes,
      on('GET /server', 'account:read', readServer),
    ],
  ).use(createRoutes(app, ['', POSTMARK_PREFIX], sendRoutes(options)))

/** The account as a server of Postmark; settings that an account does not have are those of a new server. */
export function readServer({ app, accountId }: Call) {
  const { name, trackingDefault } = getAccount(app.config, app.db, accountId)
  const tracking = { TrackOpens: trackingDefault, TrackLinks: trackingDefault ? 'HtmlAndText' : 'None' } as const
  return {
    ...{ ID: accountId, Name: name, ServerLink: app.config.publicUrl, Color: 'Grey', ...tracking },
    // Never shown after their creation.
    ApiTokens: [],
    DeliveryType: app.config.delivery === 'capture' ? ('Sandbox' as const) : ('Live' as const),
    ...{ SmtpApiActivated: true, RawEmailEnabled: false, EnableSmtpApiErrorHooks: false },
    ...{ InboundAddress: '', InboundDomain: '', InboundHash: '', InboundSpamThreshold: 0 },
    ...{ InboundHookUrl: '', BounceHookUrl: '', OpenHookUrl: '', DeliveryHookUrl: '', ClickHookUrl: '' },
    ...{ PostFirstOpenOnly: false, IncludeBounceContentInHook: false },
  }
}
