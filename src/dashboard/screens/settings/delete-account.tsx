/** @module Deletes the account with all its data. */
import { Alert, List, Text } from '@mantine/core'
import { request } from '../../api/client.ts'
import { useAllowed, useSession } from '../../api/session.tsx'
import { DeleteButton } from '../../parts/dialog.tsx'
import { useChange } from './queries.ts'

export function DeleteAccount() {
  const reason = useAllowed('owner')
  const { account } = useSession()
  const remove = useChange(() => request('DELETE', '/v1/account', { headers: { 'x-confirm-delete': 'DELETE' } }))
  return (
    <>
      <Text size="sm" maw={640}>
        Deletes the account, its sub-accounts and everything in them, permanently. Export first what you want to keep.
      </Text>
      <DeleteButton
        label="Delete this account"
        reason={reason}
        title="Delete this account?"
        confirm="Delete everything"
        work={remove}
        typed={account.name.trim()}
        // The session has ended with the account: this page would only ask to sign in again.
        onConfirm={() => remove.mutate(undefined, { onSuccess: () => location.assign('/login') })}
      >
        <Alert color="red" title="This cannot be undone">
          <bdi>{account.name}</bdi> and all of its data are deleted.
        </Alert>
        <List size="sm">
          <List.Item>API keys and sessions are rejected immediately, for everybody in the team.</List.Item>
          <List.Item>Mail that waits is cancelled. Mail to the domains is rejected.</List.Item>
          <List.Item>
            Domains, templates, contacts, suppressions, emails, received mail and events are deleted, also those of
            sub-accounts.
          </List.Item>
          <List.Item>A subscription at the payment provider ends.</List.Item>
          <List.Item>Users who belong to no other account are deleted.</List.Item>
        </List>
      </DeleteButton>
    </>
  )
}
