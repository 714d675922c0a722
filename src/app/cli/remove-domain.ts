/** @module `tassis domains remove`. */
import type { Command } from 'commander'
import { deleteDomain } from '#features/sending/emails/delete-domain.ts'
import { formatUuid } from '#platform/ids.ts'
import { loadConfig } from '../settings.ts'
import { defineAdminCommand } from './admin-command.ts'
import { withData } from './call.ts'
import { confirmAction } from './confirm.ts'
import { type DomainInput, requireDomain, toDomainInput } from './find-domain.ts'
import { type AccountOption, type JsonOption, withAccount, withJson } from './options.ts'
import { printResult, toPrintable } from './output.ts'

interface RemoveInput extends DomainInput {
  /** False: only finds it. */
  readonly isConfirmed: boolean
}

/** Also finds the domain before the question, so that a wrong name is said first. */
export const removeDomain = defineAdminCommand(
  'domains.remove',
  async ({ opened: { app } }, { isConfirmed, ...input }: RemoveInput) => {
    const { actor, domain } = requireDomain(app, input)
    const id = formatUuid(domain.uuid)
    if (isConfirmed) await deleteDomain(app, actor, id)
    return { id, domain: domain.domain, account_id: actor.accountUuid, removed: isConfirmed }
  },
)

/** @param domains the group `tassis domains` */
export const addRemoveDomainCommand = (domains: Command): Command =>
  withAccount(
    withJson(
      domains
        .command('remove')
        .description('remove a domain: nothing more is sent or received for it, and its scheduled mail is cancelled'),
    ),
  )
    .argument('<domain>', 'name or ID')
    .option('--yes', 'do not ask')
    .action(async (requested: string, options: JsonOption & AccountOption & { readonly yes?: boolean }) => {
      const input = toDomainInput(requested, options)
      const done = await withData(loadConfig().config, async (call) => {
        const { domain, account_id } = await call(removeDomain, { ...input, isConfirmed: false })
        confirmAction(options, `${toPrintable(domain)} would be removed with its DKIM keys`, 'remove it')
        return call(removeDomain, { domain, account: account_id, isConfirmed: true })
      })
      printResult(
        options,
        done,
        ({ domain }) =>
          `Removed ${toPrintable(domain)}: its scheduled mail is cancelled, and mail to it is rejected. What was queued before is still sent, signed with its key.`,
      )
    })
