/** @module Accounts in the operator's lists. */
import { Button, Group, Text } from '@mantine/core'
import { NameLink } from '../../parts/links.tsx'

interface AccountLinkProps {
  readonly id: string | null
  readonly name: string | null
}

export const AccountLink = ({ id, name }: AccountLinkProps) =>
  id === null ? (
    <span>{name ?? 'A deleted account'}</span>
  ) : (
    <NameLink to="/server/accounts/$id" id={id} name={name || '(no name)'} />
  )

interface AccountFilterProps {
  readonly id: string | undefined
  onRemove(): void
}

/** The account that a list is limited to. */
export const AccountFilter = ({ id, onRemove }: AccountFilterProps) =>
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
