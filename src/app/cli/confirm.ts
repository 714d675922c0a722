/** @module Asks before a command changes something. */
import { CommandError } from './admin-command.ts'

/**
 * Asks whether to go on; throws CommandError without a yes. Without a terminal, `--yes` is required.
 * @param facts what would be changed, without a full stop
 * @param action such as `bounce them`
 */
export function confirmAction({ yes }: { readonly yes?: boolean | undefined }, facts: string, action: string): void {
  if (yes) return
  if (!process.stdin.isTTY)
    throw new CommandError(`${facts}; nothing was changed. Add --yes to ${action}.`, 'not_confirmed')
  if (!globalThis.confirm(`${facts}. Do you want to ${action}?`))
    throw new CommandError('Nothing was changed.', 'not_confirmed')
}
