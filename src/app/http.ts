/** @module Joins the routes and pages of every feature into the HTTP server. */
import { isIPv6 } from 'node:net'
import type { AnyElysia } from 'elysia'
import { operatorFenceRoutes } from '#app/fence/release.ts'
import { contactFileRoutes } from '#features/audience/contact-lists/import-routes.ts'
import { operatorContactListRoutes } from '#features/audience/contact-lists/operator-routes.ts'
import { confirmPages } from '#features/audience/contact-lists/pages.ts'
import { contactListRoutes } from '#features/audience/contact-lists/routes.ts'
import { MAX_IMPORT_BYTES } from '#features/audience/contact-lists/start-import.ts'
import { sequenceRoutes } from '#features/audience/sequences/routes.ts'
import { type FormLimits, subscribePages } from '#features/audience/signup-forms/pages.ts'
import { signupFormRoutes } from '#features/audience/signup-forms/routes.ts'
import { findActiveSlug } from '#features/audience/signup-forms/signup-forms.ts'
import { suppressionRoutes } from '#features/audience/suppressions/routes.ts'
import { accountRoutes, operatorAccountRoutes } from '#features/core/accounts/routes.ts'
import { getTenantId } from '#features/core/accounts/work-budget.ts'
import type { Actor, App } from '#features/core/app/app.ts'
import { auditLogRoutes } from '#features/core/audit-logs/routes.ts'
import { operationRoutes } from '#features/core/operations/operations.ts'
import { mailgunDialect } from '#features/drop-in/mailgun/route.ts'
import { mailgunRoutes } from '#features/drop-in/mailgun/routes.ts'
import { mcpDialect, mcpRoutes, namingMetadata } from '#features/drop-in/mcp/routes.ts'
import { postalDialect, postalRoutes } from '#features/drop-in/postal/routes.ts'
import { postmarkDialect } from '#features/drop-in/postmark/dialect.ts'
import { postmarkRoutes } from '#features/drop-in/postmark/routes.ts'
import { resendDialect } from '#features/drop-in/resend/dialect.ts'
import { resendRoutes } from '#features/drop-in/resend/routes.ts'
import { supabaseRoutes } from '#features/drop-in/supabase/routes.ts'
import { peopleRoutes } from '#features/lifecycle/people/person.ts'
import { deleteAccount } from '#features/lifecycle/privacy/delete-account.ts'
import {
  accountDeletionRoutes,
  accountExportRoutes,
  operatorDeletionRoutes,
  privacyRoutes,
} from '#features/lifecycle/privacy/routes.ts'
import { operatorDiskRoutes } from '#features/lifecycle/retention/disk-routes.ts'
import { billingPages, billingRoutes, operatorPlanRoutes } from '#features/people/billing/routes.ts'
import { isBillingConfigured } from '#features/people/billing/stripe.ts'
import { draftPages } from '#features/people/owner-notices/drafts.ts'
import { operatorNewAccountRoutes, subAccountRoutes } from '#features/people/sub-accounts/routes.ts'
import { addAccount, parseNewAccount } from '#features/people/sub-accounts/sub-accounts.ts'
import { createAuthContext } from '#features/people/team/auth-context.ts'
import { authRoutes } from '#features/people/team/auth-routes.ts'
import { createOwnerInviter } from '#features/people/team/invitations.ts'
import { authenticateToken, isToken, listConnectors } from '#features/people/team/oauth/grants.ts'
import { findResourceMetadata, oauthRoutes } from '#features/people/team/oauth/routes.ts'
import { operatorUserRoutes } from '#features/people/team/operator-routes.ts'
import { homePage, teamPages } from '#features/people/team/pages.ts'
import { passkeyRoutes } from '#features/people/team/passkeys/routes.ts'
import { createSessionGate, isHttps } from '#features/people/team/sessions.ts'
import { teamRoutes } from '#features/people/team/team-routes.ts'
import { findUserByUuid, type User } from '#features/people/team/users.ts'
import { LongPolls } from '#features/receiving/agent-mailboxes/long-polls.ts'
import { conversationRoutes, mailboxFileRoutes } from '#features/receiving/agent-mailboxes/message-routes.ts'
import { agentMailboxRoutes } from '#features/receiving/agent-mailboxes/routes.ts'
import { operatorComplaintRoutes } from '#features/receiving/complaints/operator-routes.ts'
import { operatorReportRoutes } from '#features/receiving/domain-reports/operator-routes.ts'
import { domainReportRoutes } from '#features/receiving/domain-reports/routes.ts'
import { inboundRoutes } from '#features/receiving/inbound/api/routes.ts'
import { operatorReceivedRoutes } from '#features/receiving/inbound/process/operator-routes.ts'
import { createMailTextReader, retryOperatorMail } from '#features/receiving/inbound/process/retry.ts'
import { operatorMailRoutes } from '#features/receiving/postmaster/operator-routes.ts'
import { operatorAbuseRoutes, reputationRoutes } from '#features/reporting/abuse/routes.ts'
import { analyticsRoutes, subAccountAnalyticsRoutes } from '#features/reporting/analytics/routes.ts'
import { emailCheckRoutes } from '#features/reporting/email-check/routes.ts'
import { insightRoutes } from '#features/reporting/insights/routes.ts'
import { createHttpRecorder } from '#features/reporting/logs/request-log.ts'
import { requestLogRoutes } from '#features/reporting/logs/routes.ts'
import { operatorReputationRoutes } from '#features/reporting/reputation/report.ts'
import { badgePages, senderRuleRoutes } from '#features/reporting/sender-rules/routes.ts'
import { validateRoutes } from '#features/reporting/validate/routes.ts'
import { createRequestKeys } from '#features/sending/accept/idempotency.ts'
import { broadcastReadRoutes } from '#features/sending/broadcasts/read-routes.ts'
import { broadcastRoutes, operatorOperationRoutes } from '#features/sending/broadcasts/routes.ts'
import { countBroadcastEmails, hasOpenBroadcast } from '#features/sending/broadcasts/states.ts'
import { CAPTURED_PATH, capturedPages } from '#features/sending/capture/pages.ts'
import { capturedInboxRoutes, captureRoutes } from '#features/sending/capture/routes.ts'
import { deadLetterRoutes, operatorDeadLetterRoutes } from '#features/sending/dead-letters/routes.ts'
import { createExplanationContext, listActions } from '#features/sending/delivery/control/actions.ts'
import { attemptRoutes, retryRoutes } from '#features/sending/delivery/control/attempt-routes.ts'
import { explainEmail } from '#features/sending/delivery/control/explain.ts'
import { operatorExplainRoutes } from '#features/sending/delivery/control/operator-explain-routes.ts'
import { operatorProviderRoutes } from '#features/sending/delivery/control/operator-providers.ts'
import { operatorQueueRoutes } from '#features/sending/delivery/control/operator-queue-routes.ts'
import { operatorPoolRoutes } from '#features/sending/delivery/control/pools.ts'
import { createBroadcastRenderer, TemplateError } from '#features/sending/delivery/message/render-broadcast.ts'
import { createSourceReader } from '#features/sending/delivery/message/source.ts'
import { usesIpv6 } from '#features/sending/delivery/providers/outbound-sources.ts'
import { createMaxAttempts } from '#features/sending/delivery/verdict/outcome.ts'
import { deleteDomain } from '#features/sending/emails/delete-domain.ts'
import { domainTestRoutes } from '#features/sending/emails/domain-test.ts'
import { operatorEmailRoutes } from '#features/sending/emails/operator-routes.ts'
import { emailRoutes, oneEmailRoutes } from '#features/sending/emails/routes.ts'
import { newsletterPreviewRoutes } from '#features/sending/newsletters/preview.ts'
import { newsletterRoutes } from '#features/sending/newsletters/routes.ts'
import { followBroadcast } from '#features/sending/newsletters/states.ts'
import { simulatorDomain } from '#features/sending/queue/lanes.ts'
import { hasOpenEmail } from '#features/sending/queue/queue.ts'
import { trackingPages } from '#features/sending/tracking/pages.ts'
import { trackingRoutes } from '#features/sending/tracking/routes.ts'
import { trimTrailingSlashes } from '#features/sending/tracking/tokens.ts'
import { unsubscribePages } from '#features/sending/unsubscribe/pages.ts'
import { apiKeyImportRoutes, apiKeyRoutes } from '#features/setup/api-keys/routes.ts'
import { hasScope, requireRouteOfKey } from '#features/setup/api-keys/scopes.ts'
import { Challenges, challengePages } from '#features/setup/certificates/challenges.ts'
import { certificateRoutes } from '#features/setup/certificates/operator-routes.ts'
import { createScreen } from '#features/setup/certificates/screen.ts'
import { dnsPublishRoutes } from '#features/setup/dns-publish/routes.ts'
import { domainDnsRoutes, domainRoutes, operatorDomainRoutes, tlsPages } from '#features/setup/domains/routes.ts'
import { healthRoutes } from '#features/setup/health/routes.ts'
import { streamRoutes } from '#features/setup/streams/routes.ts'
import type { HasOpenMail } from '#features/setup/streams/streams.ts'
import { createPreviewStore } from '#features/setup/templates/preview-store.ts'
import { templateImportRoutes, templateRoutes } from '#features/setup/templates/routes.ts'
import { logoPages, wordingRoutes } from '#features/setup/wording/routes.ts'
import { eventRoutes } from '#features/webhooks/event-feed/routes.ts'
import { createFeedStreams } from '#features/webhooks/event-feed/stream.ts'
import {
  inboundDeliveryRoutes,
  inboundRouteRoutes,
  operatorWebhookRoutes,
} from '#features/webhooks/inbound-routes/routes.ts'
import { webhookPayloadRoutes, webhookRoutes } from '#features/webhooks/webhooks/history/routes.ts'
import { readWebhookStats } from '#features/webhooks/webhooks/manage/webhooks.ts'
import { attempt } from '#platform/errors.ts'
import type { BuiltFiles } from '#platform/http/built-files.ts'
import type { Dialect } from '#platform/http/dialect.ts'
import { iconRoute } from '#platform/http/icon.ts'
import { BunHttpServer, type HttpServer } from '#platform/http/server.ts'
import { formatUuid, newUuid, parseUuid } from '#platform/ids.ts'
import { parseHostPort } from '#platform/settings/setting-kinds.ts'
import { isLoopback } from '#protocols/dns/special-addresses.ts'
import { createAuditNames } from './audit-names.ts'
import { loadDashboardFiles, loadDocsFiles } from './built-files.ts'
import { clusterRoutes } from './cluster/routes.ts'
import type { OpenedApp } from './create.ts'
import { mailFrames } from './dashboard/mail-frames.ts'
import { dashboardRoutes } from './dashboard/routes.ts'
import { docsRoutes } from './docs/routes.ts'
import { isBad } from './doctor/context.ts'
import { Doctor } from './doctor/doctor.ts'
import { findRoutes } from './find-routes.ts'
import { masterKeyRoutes } from './master-key.ts'
import { searchRoutes } from './search-routes.ts'
import { operatorStatusRoutes, type StatusRouteOptions } from './status-routes.ts'
import { VERSION } from './version.ts'

export const DIALECTS: readonly Dialect<Actor>[] = [
  resendDialect,
  postmarkDialect,
  mailgunDialect,
  postalDialect,
  mcpDialect,
]

const REQUEST_TIMEOUT_SECONDS = 60

/** What is left out of the state is that of a process in which no service runs. */
export interface HttpOptions extends Partial<StatusRouteOptions> {
  readonly challenges?: Challenges
  /** Loads the files of the dashboard at their first request. */
  readonly loadDashboard?: () => Promise<BuiltFiles>
  /** Other limits, for tests: of mail that signup forms cause, and of the size of imports. */
  readonly formLimits?: Partial<FormLimits>
  readonly maxImportBytes?: number
}

/** What routes need of the server that serves them. */
interface RouteContext {
  /** Aborted when the server stops, which ends open streams. */
  readonly ending?: AbortSignal
  /** Takes work that continues after its response and never rejects; the server waits for it at stop. */
  readonly later?: (work: Promise<void>) => void
  /** Serves a request of another route, for a client with this address. */
  readonly fetch?: (request: Request, clientIp: () => string) => Promise<Response>
}

/**
 * Returns a function that renders the bodies of a broadcast email on request. That function returns no bodies when the
 * template fails.
 */
function createBodyRenderer(render: ReturnType<typeof createBroadcastRenderer>) {
  return (emailId: number) =>
    render(emailId, 'now').catch((error: unknown) => {
      if (error instanceof TemplateError) return {}
      throw error
    })
}

/**
 * Returns every route and page, including the API description.
 */
export function createRoutes(
  opened: OpenedApp,
  {
    challenges = new Challenges(),
    loadDashboard = loadDashboardFiles,
    formLimits,
    ending = new AbortController().signal,
    later = () => undefined,
    fetch = async () => Response.error(),
    ...given
  }: HttpOptions & RouteContext = {},
): AnyElysia[] {
  const state: StatusRouteOptions = {
    delivery: () => undefined,
    submission: () => undefined,
    isStopping: () => false,
    doctorReport: () => undefined,
    runDoctor: () => new Doctor({ app: opened.app, sourceNames: opened.sourceNames }).run(state.delivery()),
    url: () => undefined,
    settings: [],
    version: VERSION,
    ...given,
  }
  // Sends, broadcasts and newsletters share one rate limit.
  const { app, authenticator, captures, parser, senderResolver, takeRate } = opened
  const scheduler = () => state.delivery()?.scheduler
  const renderBroadcast = createBroadcastRenderer(app)
  const renderedBodies = createBodyRenderer(renderBroadcast)
  const maxAttempts = createMaxAttempts(app.config.retryExpiryHours)
  const people = createAuthContext(app, later)
  const readSource = createSourceReader(app, renderBroadcast)
  const ruleWitnesses = {
    sources: () => opened.sourceNames.all().filter(({ ip }) => !isIPv6(ip) || usesIpv6(app.config)),
    doctor: () => state.doctorReport(),
  }
  const hasOpenMail: HasOpenMail = (db, accountId, streamId) =>
    hasOpenEmail(db, accountId, streamId) || hasOpenBroadcast(db, streamId)
  const previews = createPreviewStore(app.clock, (accountId) => getTenantId(app.db, accountId))
  // In the order of the documentation.
  const routes: AnyElysia[] = [
    emailRoutes(app, { maxAttempts, takeRate }),
    oneEmailRoutes(app, {
      maxAttempts,
      takeRate,
      renderedBodies,
      explain: (accountId, email, events) => {
        const explanation = explainEmail(email, events, createExplanationContext(app, accountId, email))
        return { ...explanation, actions: listActions(app, email, explanation.explanations) }
      },
      readSource,
    }),
    retryRoutes(app, { takeRate }),
    attemptRoutes(app, {
      findDialogue: (recipientId) => scheduler()?.recentDialogues.find(recipientId),
    }),
    broadcastRoutes(app, { takeRate, onTransition: followBroadcast }),
    broadcastReadRoutes(app),
    captureRoutes(app, captures),
    capturedInboxRoutes(app, captures),
    eventRoutes(app, createFeedStreams(app, ending)),
    trackingRoutes(app),
    webhookRoutes(app),
    webhookPayloadRoutes(app),
    deadLetterRoutes(app),
    domainRoutes(app, { deleteDomain }),
    domainDnsRoutes(app),
    dnsPublishRoutes(app),
    domainReportRoutes(app),
    senderRuleRoutes(app, ruleWitnesses),
    domainTestRoutes(app, { takeRate, findUserEmail: (actor) => findActingUser(app, actor)?.email }),
    streamRoutes(app, { hasOpenMail }),
    templateRoutes(app, { previews }),
    contactListRoutes(app),
    sequenceRoutes(app),
    contactFileRoutes(app),
    suppressionRoutes(app),
    peopleRoutes(app, { maxAttempts }),
    inboundRoutes(app),
    inboundDeliveryRoutes(app),
    inboundRouteRoutes(app),
    agentMailboxRoutes(app, new LongPolls(app, ending)),
    conversationRoutes(app),
    mailboxFileRoutes(app),
    signupFormRoutes(app),
    newsletterRoutes(app, { takeRate }),
    newsletterPreviewRoutes(app, { takeRate, findUserEmail: (actor) => findActingUser(app, actor)?.email }),
    // The resolver for names in received mail: slow names must not delay the lookups of outgoing mail.
    emailCheckRoutes(app),
    validateRoutes(app, senderResolver),
    analyticsRoutes(app),
    subAccountAnalyticsRoutes(app),
    insightRoutes(app, { webhookStats: readWebhookStats }),
    operationRoutes(app, {
      countEmails: (accountId, operationId) => countBroadcastEmails(app.db, accountId, operationId),
    }),
    apiKeyRoutes(app, listConnectors),
    authRoutes(app, people),
    passkeyRoutes(app, people),
    teamRoutes(app),
    accountRoutes(app),
    reputationRoutes(app),
    wordingRoutes(app, trimTrailingSlashes(app.config.publicUrl)),
    accountDeletionRoutes(app),
    accountExportRoutes(app),
    subAccountRoutes(app, { deleteAccount, inviteOwner: createOwnerInviter(app, later) }),
    billingRoutes(app),
    auditLogRoutes(app, { findNames: createAuditNames(app) }),
    requestLogRoutes(app),
    privacyRoutes(app, { renderedBodies }),
    findRoutes(app),
    searchRoutes(app, { maxAttempts }),
    apiKeyImportRoutes(app),
    operatorNewAccountRoutes(app),
    operatorPlanRoutes(app),
    operatorUserRoutes(app),
    operatorDeletionRoutes(app),
    templateImportRoutes(app),
    operatorDomainRoutes(app),
    operatorContactListRoutes(app),
    certificateRoutes(app),
    masterKeyRoutes(app),
    operatorStatusRoutes(opened, state),
    operatorQueueRoutes(app, scheduler),
    operatorEmailRoutes(app, { maxAttempts }),
    operatorExplainRoutes(app, scheduler),
    operatorDeadLetterRoutes(app),
    operatorOperationRoutes(app),
    operatorWebhookRoutes(app),
    operatorReceivedRoutes(app, { parser }),
    operatorDiskRoutes(app),
    operatorAccountRoutes(app),
    operatorAbuseRoutes(app),
    operatorPoolRoutes(app),
    operatorComplaintRoutes(app),
    operatorReportRoutes(app, { parser }),
    operatorMailRoutes(app, { readText: createMailTextReader(app, parser), retry: retryOperatorMail }),
    operatorProviderRoutes(app, scheduler),
    operatorReputationRoutes(app, () =>
      (state.doctorReport()?.findings ?? [])
        .filter((finding) => finding.check === 'block_lists' && isBad(finding))
        .map(({ message }) => message),
    ),
    operatorFenceRoutes(app),
    clusterRoutes(app),
    healthRoutes(app, state),
  ]
  const host = parseHostPort(app.config.httpAddr)?.host ?? ''
  // The pages show the mail of all accounts without a key, so they exist only for a developer on this machine.
  const hasCapturedPages = app.config.delivery === 'capture' && (host === 'localhost' || isLoopback(host))
  const all = [
    ...routes,
    postmarkRoutes(app, { takeRate, renderedBodies, readSource, simulatorDomain: simulatorDomain(app.config) }),
    ...(hasCapturedPages ? [capturedPages(captures)] : []),
    ...(isBillingConfigured(app.config) ? [billingPages(app)] : []),
    iconRoute(),
    ...(app.config.dashboard
      ? [
          dashboardRoutes(people, loadDashboard),
          mailFrames(app, { auth: people, captures, previews, renderBodies: renderedBodies }),
        ]
      : []),
    tlsPages(app),
    challengePages(challenges),
    logoPages(app),
    badgePages(app, ruleWitnesses),
    trackingPages(app),
    unsubscribePages(app),
    draftPages(app),
    subscribePages(app, formLimits),
    homePage(people, hasCapturedPages ? CAPTURED_PATH : undefined),
    teamPages(app, people, {
      parse: parseNewAccount,
      add: (tx, input, toActor) => addAccount(app, tx, { ...input, plan: 'unlimited' }, toActor),
    }),
    mcpRoutes({ version: VERSION, fetch }),
    oauthRoutes(app, people),
    confirmPages(app, findActiveSlug),
    resendRoutes(app, { maxAttempts, takeRate, renderedBodies, deleteDomain, hasOpenMail }),
    mailgunRoutes(app, { takeRate, parser, deleteDomain }),
    postalRoutes(app, { takeRate, parser }),
    supabaseRoutes(app, { authenticator, takeRate }),
  ]
  return [...all, docsRoutes(() => loadDocsFiles(all))]
}

/** The signed-in user; undefined for any other actor. */
function findActingUser({ db }: App, { type, id }: Actor): User | undefined {
  const uuid = type === 'user' ? parseUuid(id) : undefined
  return uuid && findUserByUuid(db, uuid)
}

/** Creates the server with all routes; it does not listen yet. */
export function createHttp(opened: OpenedApp, options: HttpOptions = {}): HttpServer {
  const { app, authenticator } = opened
  const ending = new AbortController()
  const pending = new Set<Promise<void>>()
  const later = (work: Promise<void>): void => {
    pending.add(work)
    void work.finally(() => pending.delete(work))
  }
  const screen = createScreen(app)
  const recordRequest = createHttpRecorder(app, authenticator, DIALECTS)
  const server: HttpServer = new BunHttpServer<Actor>({
    config: {
      maxBodyBytes: app.config.maxBodyBytes,
      strictClients: app.config.strictClients,
      maxStreamBytes: options.maxImportBytes ?? MAX_IMPORT_BYTES,
      trustedProxies: app.config.trustedProxies,
      corsOrigins: app.config.corsOrigins,
      requestTimeoutSeconds: REQUEST_TIMEOUT_SECONDS,
      isHttps: isHttps(app.config),
    },
    log: app.log,
    clock: app.clock,
    memory: app.memory,
    newRequestId: () => formatUuid(newUuid()),
    authenticate: (key, clientIp, via) => {
      const actor =
        via === mcpDialect.name && isToken(key)
          ? authenticateToken(app, authenticator, key, clientIp)
          : authenticator.authenticate(key, clientIp)
      // A getter, because only the audit log reads the address.
      return (
        actor && {
          ...actor,
          get ipAddress() {
            return clientIp()
          },
        }
      )
    },
    hasScope: (actor, scope) => hasScope(actor.scopes, scope),
    requireRoute: requireRouteOfKey,
    fairness: {
      turns: app.fairScheduler,
      ownerOf: ({ accountId }) => getTenantId(app.db, accountId),
      spendWork: ({ accountId }, units) => app.workBudget.spend(accountId, units),
      chargeWork: ({ accountId }, units) => app.workBudget.charge(accountId, units),
    },
    sessions: createSessionGate(app),
    dialects: DIALECTS.map((dialect) =>
      dialect === mcpDialect ? namingMetadata(mcpDialect, findResourceMetadata(app.config)) : dialect,
    ),
    requestKeys: createRequestKeys(app),
    onResponse(response, request) {
      app.metrics.responseSent(response.status)
      // The request was served: a client that got an error for it would repeat it.
      attempt(() => recordRequest(response, request))
    },
    ...(screen && { screen }),
    routes: createRoutes(opened, {
      ...options,
      ending: ending.signal,
      later,
      fetch: (request, clientIp) => server.fetch(request, { clientIp, via: 'mcp' }),
    }),
  })
  return {
    fetch: (request, caller) => server.fetch(request, caller),
    listen(hostname, port) {
      const bound = server.listen(hostname, port)
      app.ownPorts.add(bound.port)
      return bound
    },
    async listenTls(hostname, port, certificates) {
      const bound = await server.listenTls(hostname, port, certificates)
      app.ownPorts.add(bound.port)
      return bound
    },
    async stop(graceMs) {
      ending.abort()
      await server.stop(graceMs)
      await Promise.all(pending)
    },
  }
}

/** Binds the server to the configured address. Throws system errors such as EADDRINUSE. */
export function listenHttp(http: HttpServer, httpAddr: string): { hostname: string; port: number } {
  const address = parseHostPort(httpAddr)
  if (!address) throw new TypeError(`not an address: ${httpAddr}`)
  return http.listen(address.host, address.port)
}
