/**
 * @module Our responses held against the types of Resend's own client: `bun run types` fails when one of them lacks a
 * field or has another type. Checked at compile time only.
 */
import type {
  CancelEmailResponseSuccess,
  CreateApiKeyResponseSuccess,
  CreateDomainResponseSuccess,
  CreateEmailResponseSuccess,
  GetDomainResponseSuccess,
  GetEmailResponseSuccess,
  GetReceivingEmailResponseSuccess,
  GetSuppressionResponseSuccess,
  ListApiKeysResponseSuccess,
  ListDomainsResponseSuccess,
  ListEmailsResponseSuccess,
  ListReceivingEmailsResponseSuccess,
  ListSuppressionsResponseSuccess,
  RemoveDomainsResponseSuccess,
  Resend,
} from 'resend'
import type { toListedKey, toListedLog, toListedWebhook, toLog } from '#features/drop-in/resend/account-routes.ts'
import type {
  toDetail as toBroadcast,
  toListed as toListedBroadcast,
} from '#features/drop-in/resend/broadcast-routes.ts'
import type {
  toDetail as toContact,
  toListed as toListedContact,
  toSegment,
  toTopic,
  toTopics,
} from '#features/drop-in/resend/contact-routes.ts'
import type { toDomainDetail, toListedDomain } from '#features/drop-in/resend/domain-routes.ts'
import type {
  toEmailDetail,
  toListedEmail,
  toListedReceived,
  toReceivedDetail,
} from '#features/drop-in/resend/email-routes.ts'
import type { listReceivedFiles, listSentFiles } from '#features/drop-in/resend/file-routes.ts'
import type { ListPage } from '#features/drop-in/resend/route.ts'
import type { SentBatch, SentEmail } from '#features/drop-in/resend/send-routes.ts'
import type { toListedSuppression } from '#features/drop-in/resend/suppression-routes.ts'
import type { toListed as toListedTemplate, toDetail as toTemplate } from '#features/drop-in/resend/template-routes.ts'

type List<F extends (...args: never[]) => unknown> = ListPage<ReturnType<F>>
/** The data of a method of the client; its types of these are not exported. */
type DataOf<M extends (...args: never[]) => Promise<{ data: unknown }>> = NonNullable<Awaited<ReturnType<M>>['data']>
/** `Ours` can be used wherever the client expects `Theirs`. */
type Fits<Theirs, Ours extends Theirs> = [Theirs, Ours]

export type Held = [
  Fits<CreateEmailResponseSuccess, SentEmail>,
  Fits<Pick<DataOf<Resend['batch']['send']>, 'data'>, SentBatch>,
  Fits<GetEmailResponseSuccess, ReturnType<typeof toEmailDetail>>,
  Fits<ListEmailsResponseSuccess, List<typeof toListedEmail>>,
  Fits<CancelEmailResponseSuccess, { object: 'email'; id: string }>,
  Fits<DataOf<Resend['emails']['attachments']['list']>['data'], ReturnType<typeof listSentFiles>>,
  Fits<ListReceivingEmailsResponseSuccess, List<typeof toListedReceived>>,
  Fits<GetReceivingEmailResponseSuccess, ReturnType<typeof toReceivedDetail>>,
  Fits<DataOf<Resend['emails']['receiving']['attachments']['list']>['data'], ReturnType<typeof listReceivedFiles>>,
  Fits<CreateDomainResponseSuccess, ReturnType<typeof toDomainDetail> & { object: 'domain' }>,
  Fits<GetDomainResponseSuccess, ReturnType<typeof toDomainDetail> & { object: 'domain' }>,
  Fits<ListDomainsResponseSuccess, List<typeof toListedDomain>>,
  Fits<RemoveDomainsResponseSuccess, { object: 'domain'; id: string; deleted: boolean }>,
  Fits<CreateApiKeyResponseSuccess, { id: string; token: string }>,
  Fits<ListApiKeysResponseSuccess, List<typeof toListedKey>>,
  Fits<DataOf<Resend['webhooks']['list']>, List<typeof toListedWebhook>>,
  Fits<
    DataOf<Resend['webhooks']['get']>,
    ReturnType<typeof toListedWebhook> & { object: 'webhook'; signing_secret: string }
  >,
  Fits<ListSuppressionsResponseSuccess, List<typeof toListedSuppression>>,
  Fits<DataOf<Resend['contacts']['get']>, ReturnType<typeof toContact>>,
  Fits<DataOf<Resend['contacts']['list']>, List<typeof toListedContact>>,
  Fits<DataOf<Resend['contacts']['topics']['list']>['data'], ReturnType<typeof toTopics>>,
  Fits<DataOf<Resend['contacts']['segments']['list']>, List<typeof toSegment>>,
  Fits<DataOf<Resend['segments']['get']>, ReturnType<typeof toSegment> & { object: 'segment' }>,
  Fits<DataOf<Resend['topics']['get']>, ReturnType<typeof toTopic>>,
  Fits<DataOf<Resend['broadcasts']['get']>, ReturnType<typeof toBroadcast> & { object: 'broadcast' }>,
  Fits<DataOf<Resend['broadcasts']['list']>, List<typeof toListedBroadcast>>,
  Fits<DataOf<Resend['templates']['get']>, ReturnType<typeof toTemplate> & { object: 'template' }>,
  Fits<DataOf<Resend['templates']['list']>, List<typeof toListedTemplate>>,
  Fits<DataOf<Resend['logs']['get']>, ReturnType<typeof toLog>>,
  Fits<DataOf<Resend['logs']['list']>, List<typeof toListedLog>>,
  Fits<GetSuppressionResponseSuccess, ReturnType<typeof toListedSuppression> & { object: 'suppression' }>,
]
