/** @module Every route of operators through its method; the compiler checks that no method is left out. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TassisError } from '#client/index.ts'
import type { OperatorApi } from '#client/operator-api.ts'
import { createOperatorClient } from '#test/support/operator-client.ts'
import { createTestUser } from '#test/support/users.ts'
import { type ContractApi, createContractApi, unknownId } from './routes.ts'

type Calls = { readonly [Method in keyof OperatorApi['operator']]: () => PromiseLike<unknown> }

let service: ContractApi
beforeAll(async () => {
  service = await createContractApi()
})
afterAll(() => service[Symbol.asyncDispose]())

/** What a service refuses that has no such mail, certificate or provider: tests of its commands have them. */
async function isRefused(call: PromiseLike<unknown>, code: string): Promise<object> {
  const error: unknown = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (error instanceof TassisError && error.code === code) return error
  throw new Error(`not refused with ${code}`, { cause: error })
}

test('an operator calls every route through the client', async () => {
  const { operator } = createOperatorClient(service.opened)
  const account = service.actor.accountUuid
  const email = 'olga@people.test'
  await createTestUser(service.app, service.actor, email, 'owner')
  const domain = await service.make('domain')
  const sent = await service.make('email')
  const [deadLetter, webhook] = [await service.make('dead-letter'), await service.make('webhook')]
  const queue = { domain: 'receiver.test' }
  const none = unknownId('email')
  const calls: Calls = {
    find: () => operator.find({ kind: 'domain', text: 'sender.test' }),
    createAccount: () => operator.createAccount({ name: 'New', email: 'new@shop.test', plan: 'free' }),
    listAccounts: () => operator.listAccounts({ per_page: 1 }),
    getAccount: () => operator.getAccount(account),
    setAccountPlan: () => operator.setAccountPlan(account, { plan: 'unlimited' }),
    setAccountPool: () => operator.setAccountPool(account, { pool: null }),
    pauseAccount: () => operator.pauseAccount(account, { reason: 'Test.' }),
    resumeAccount: () => operator.resumeAccount(account),
    listAccountDeletions: () => operator.listAccountDeletions(),
    importAccountApiKey: () => operator.importAccountApiKey(account, { name: 'app', key: `em_live_${'k'.repeat(32)}` }),
    importAccountTemplate: () =>
      operator.importAccountTemplate(account, {
        foreign_id: 7,
        alias: 'hi',
        name: 'Hi',
        subject: 'Hi',
        text_body: 'Hi',
      }),
    verifyAccountDomainWithoutDns: () => operator.verifyAccountDomainWithoutDns(account, domain),
    listUsers: () => operator.listUsers(),
    createAccountUser: () => operator.createAccountUser(account, { email: 'ian@people.test', role: 'viewer' }),
    deleteAccountUser: () => operator.deleteAccountUser(account, 'ian@people.test'),
    createUserResetLink: () => operator.createUserResetLink(email),
    setUserOperator: () => operator.setUserOperator(email, { is_operator: true }),
    deleteUserTotp: () => operator.deleteUserTotp(email),
    listUserSessions: () => operator.listUserSessions(email),
    deleteUserSessions: () => operator.deleteUserSessions(email),
    listContactLists: () => operator.listContactLists(),
    listCertificates: () => operator.listCertificates(),
    retryCertificates: () => isRefused(operator.retryCertificates(), 'certificates_not_ordered'),
    listMasterKeys: () => operator.listMasterKeys(),
    rotateMasterKeys: () => operator.rotateMasterKeys(),
    getHealth: () => operator.getHealth(),
    getDoctor: () => operator.getDoctor(),
    runDoctor: () => operator.runDoctor(),
    listSettings: () => operator.listSettings(),
    getDisk: () => operator.getDisk(),
    runRetention: () => operator.runRetention(),
    getQueue: () => operator.getQueue(),
    listQueueRecipients: () => operator.listQueueRecipients({ lane: 'receiver.test' }),
    getQueueSelection: () => operator.getQueueSelection(queue),
    holdQueue: () => operator.holdQueue(queue),
    redirectQueue: () => operator.redirectQueue({ domain: 'other.test', to: 'relay.test' }),
    listQueueRules: () => operator.listQueueRules(),
    releaseQueue: () => operator.releaseQueue(queue),
    releaseQueueWithoutContent: () => operator.releaseQueueWithoutContent(),
    retryQueue: () => operator.retryQueue(queue),
    bounceQueue: () => operator.bounceQueue({ ...queue, reason: 'Test.' }),
    dropQueue: () => operator.dropQueue(queue),
    listEmails: () => operator.listEmails(),
    getEmailExplanation: () => operator.getEmailExplanation(sent),
    listDeadLetters: () => operator.listDeadLetters(),
    getDeadLetter: () => operator.getDeadLetter(deadLetter),
    listOperations: () => operator.listOperations(),
    listWebhooks: () => operator.listWebhooks(),
    getWebhook: () => operator.getWebhook(webhook),
    listReceivedMessages: () => operator.listReceivedMessages(),
    listUnparsedMessages: () => operator.listUnparsedMessages(),
    retryUnparsedMessage: () => isRefused(operator.retryUnparsedMessage(none), 'message_not_found'),
    listFindings: () => operator.listFindings(),
    listComplaintRates: () => operator.listComplaintRates(),
    listComplaints: () => operator.listComplaints(),
    listReports: () => operator.listReports(),
    createReport: () => isRefused(operator.createReport({ name: 'a.xml', content: 'eA==' }), 'report_refused'),
    getReport: () => isRefused(operator.getReport(none), 'report_not_found'),
    listMessages: () => operator.listMessages(),
    getMessage: () => isRefused(operator.getMessage(none), 'operator_mail_not_found'),
    getMessageRaw: () => isRefused(operator.getMessageRaw(none), 'operator_mail_not_found'),
    retryMessage: () => isRefused(operator.retryMessage(none), 'operator_mail_not_found'),
    deleteMessage: () => isRefused(operator.deleteMessage(none), 'operator_mail_not_found'),
    listProviders: () => operator.listProviders(),
    resumeProvider: () => isRefused(operator.resumeProvider('gmail'), 'provider_not_found'),
    getReputation: () => operator.getReputation(),
    listAlerts: () => operator.listAlerts(),
    getFence: () => operator.getFence(),
    releaseFence: () => operator.releaseFence({}),
    dropFence: () => operator.dropFence({}),
    getCluster: () => operator.getCluster(),
    stepDownCluster: () => isRefused(operator.stepDownCluster({}), 'no_cluster'),
  }
  for (const [name, call] of Object.entries(calls)) {
    const failure = await call().then(
      () => undefined,
      (reason: unknown) => reason,
    )
    expect([name, failure]).toEqual([name, undefined])
  }
})
