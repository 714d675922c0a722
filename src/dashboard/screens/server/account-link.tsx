/** @module Accounts in the operator's lists. */
import { NameLink, TextLink } from '../../parts/links.tsx'

interface AccountLinkProps {
  readonly id: string | null
  readonly name: string | null
  /** Whether its row is the link of something else. */
  readonly isPlain?: boolean
}

export const AccountLink = ({ id, name, isPlain = false }: AccountLinkProps) =>
  id === null ? (
    <span>{name ?? 'A deleted account'}</span>
  ) : isPlain ? (
    <TextLink to="/server/accounts/$id" params={{ id }}>
      <bdi>{name || '(no name)'}</bdi>
    </TextLink>
  ) : (
    <NameLink to="/server/accounts/$id" params={{ id }} name={name || '(no name)'} />
  )
