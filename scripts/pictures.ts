/**
 * @module Pictures of every screen of the dashboard, at 1440 and 390 pixels, light and dark, on the month of mail of
 * `demo.ts`: `bun scripts/pictures.ts FOLDER [PART OF A PATH]`. For people who judge the looks; needs Debian's
 * chromium-headless-shell.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { startBrowser } from '#test/support/browser.ts'
import { signIn } from '#test/support/users.ts'
import { OWNER, startDemo } from './demo.ts'

const [folder = 'pictures', only = ''] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
await using demo = await startDemo()
const { service, ids } = demo
const paths: readonly (readonly [name: string, path: string])[] = [
  ['overview', '/'],
  ['emails', '/emails'],
  ['emails-found', '/emails?q=bob'],
  ['emails-none', '/emails?q=bob.brwon@gmail.com'],
  ...['bob.brown@gmail.com', 'bob.brown.old@gmail.com', 'bob.brown.work@outlook.com', 'nobody@gmail.com'].map(
    (address) => [`person-${address.split('@')[0]}`, `/people/${address}`] as const,
  ),
  ...[
    'delivered',
    'bounced',
    'suppressed',
    'full',
    'down',
    'grey',
    'complained',
    'unknownDomain',
    'expired',
    'scheduled',
    'sandbox',
    'notSeen',
    'many',
  ].flatMap((name) => (ids[name] ? [[`email-${name}`, `/emails/${ids[name]}`] as const] : [])),
  ['domains', '/domains'],
  ['domain-new', '/domains/new'],
  ['domain', `/domains/${ids['domain']}`],
  ['domain-pending', `/domains/${ids['pending']}`],
  ['domain-covered', `/domains/${ids['covered']}`],
  ['webhooks', '/webhooks'],
  ['webhook-new', '/webhooks/new'],
  ['webhook', `/webhooks/${ids['webhook']}`],
  ['webhook-settings', `/webhooks/${ids['webhook']}?tab=settings`],
  ['webhook-delivery', `/webhooks/${ids['webhook']}/deliveries/${ids['delivery']}`],
  ['webhook-failing', `/webhooks/${ids['failingWebhook']}`],
  ['logs', '/logs'],
  ['logs-refused', '/logs?status=4xx'],
  ['logs-none', '/logs?q=nothing'],
  ['log', `/logs/${ids['log']}`],
  ['log-key', `/logs/${ids['logOfKey']}`],
  ['keys', '/keys'],
  ['key-new', '/keys/new'],
  ['key', `/keys/${ids['apiKey']}`],
  ['suppressions', '/suppressions'],
  ['suppressions-import', '/suppressions/import'],
  ['sandbox', '/sandbox'],
  ['sandbox-message', `/sandbox/${ids['sandbox']}`],
  ['templates', '/templates'],
  ['template', `/templates/${ids['welcome']}`],
  ['template-versions', `/templates/${ids['welcome']}/versions`],
  ['audience', '/audience'],
  ['audience-list', `/audience/lists/${ids['list']}`],
  ['audience-contact', `/audience/lists/${ids['list']}/contacts/bob.brown@gmail.com`],
  ['audience-import', `/audience/lists/${ids['list']}/import`],
  ['audience-forms', '/audience/forms'],
  ['audience-form', `/audience/forms/${ids['form']}`],
  ['broadcasts', '/broadcasts'],
  ['broadcasts-drafts', '/broadcasts?show=drafts'],
  ['broadcast', `/broadcasts/${ids['broadcast']}`],
  ['broadcast-draft', `/broadcasts/drafts/${ids['draft']}?step=content`],
  ['broadcast-send', `/broadcasts/drafts/${ids['draft']}?step=send`],
  ['inbound', '/inbound'],
  ['inbound-email', `/inbound/${ids['received']}`],
  ['inbound-email-suspicious', `/inbound/${ids['suspicious']}`],
  ['inbound-routes', '/inbound/routes'],
  ['inbound-route', `/inbound/routes/${ids['route']}`],
  ['mailboxes', '/inbound/mailboxes'],
  ['mailbox', `/inbound/mailboxes/${ids['mailbox']}`],
  ['thread', `/inbound/mailboxes/${ids['mailbox']}/threads/${ids['thread']}`],
  ['analytics', '/analytics'],
  ['analytics-hours', '/analytics?interval=hour&metrics=sent,delivered,bounced,complaints,opens,clicks,unsubscribes'],
  ['analytics-stream', '/analytics?stream=receipts'],
  ['insights', '/analytics/insights'],
  ['settings', '/settings'],
  ['settings-team', '/settings/team'],
  ['settings-profile', '/settings/profile'],
  ['settings-streams', '/settings/streams'],
  ['settings-stream', `/settings/streams/${ids['stream']}`],
  ['settings-wording', '/settings/wording'],
  ['settings-accounts', '/settings/accounts'],
  ['settings-account', `/settings/accounts/${ids['sub']}`],
  ['settings-plan', '/settings/plan'],
  ['settings-audit', '/settings/audit'],
  ['settings-privacy', '/settings/privacy'],
  ...[
    '',
    '/queue',
    '/providers',
    '/received',
    '/disk',
    '/accounts',
    '/findings',
    '/complaints',
    '/reports',
    '/mail',
    '/settings',
  ].map((path) => [`server${path.replace('/', '-')}`, `/server${path}`] as const),
  ['server-account', `/server/accounts/${ids['pausedAccount']}`],
  ['server-report', `/server/reports/${ids['report']}`],
  ['server-message', `/server/mail/${ids['operatorMail']}`],
  ['not-found', '/no-such-page'],
]
const browser = await startBrowser()
const owner = (await signIn(service, OWNER)).cookie
for (const [width, height] of [
  [1440, 900],
  [390, 844],
] as const)
  for (const colours of ['light', 'dark'] as const) {
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: colours,
      locale: 'en-GB',
      timezoneId: 'Europe/Berlin',
      reducedMotion: 'reduce',
    })
    const page = await context.newPage()
    page.on('pageerror', (error) => console.warn(`${page.url()}: ${error}`))
    for (const [name, path] of paths) {
      if (!`${name} ${path}`.includes(only)) continue
      const [key = '', value = ''] = (path.startsWith('/server') ? demo.operatorCookie : owner).split('=')
      await context.addCookies([{ name: key, value, url: service.url }])
      await page.goto(`${service.url}/app${path === '/' ? '' : path}`)
      await page.waitForSelector('h1')
      await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached', timeout: 20_000 })
      await Bun.sleep(150)
      await page.screenshot({ path: join(folder, `${name}-${width}-${colours}.png`) })
    }
    await context.close()
  }
await browser.close()
