/** @module Accounts in the operator's lists. */
import { Button, Group, Text } from '@mantine/core'
import { NameLink } from '../../parts/links.tsx'

export const AccountLink = ({ id, name }: { readonly id: string | null; readonly name: string | null }) =>
  id === null ? (
    <span>{name ?? 'A deleted account'}</span>
  ) : (
    <NameLink to="/server/accounts/$id" id={id} name={name || '(no name)'} />
  )

export const AccountFilter = ({ id, onRemove }: { readonly id: string | undefined; onRemove(): void }) =>
  id === undefined ? null : (
    <Group gap="xs">
      <Text size="sm">
        Only <AccountLink id={id} name="one account" />
      </Text>
      <Button variant="default" size="compact-xs" onClick={onRemove}>
        Show all accounts
      </Button>
    </Group>
  )
