/** @module Links to other screens: their paths, and what is in them, have the types of the router. */

import { Anchor, type AnchorProps, Button, type ButtonProps } from '@mantine/core'
import { createLink } from '@tanstack/react-router'
import type { AnchorHTMLAttributes, ReactNode, Ref } from 'react'

type Attributes = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof AnchorProps> & {
  readonly ref?: Ref<HTMLAnchorElement>
}

/** Looks as its class says. */
export const AppLink = createLink((props: AnchorHTMLAttributes<HTMLAnchorElement>) => <a {...props} />)

interface NameProps {
  /** What it says; default: its children. */
  readonly name?: ReactNode
}

const TextAnchor = ({ name, children, ...props }: AnchorProps & Attributes & NameProps) => (
  <Anchor {...props}>{name ?? children}</Anchor>
)

export const TextLink = createLink(TextAnchor)

export const ButtonLink = createLink(({ name, children, ...props }: ButtonProps & Attributes & NameProps) => (
  <Button component="a" {...props}>
    {name ?? children}
  </Button>
))

/** In a sentence. */
export const InlineLink = createLink((props: AnchorProps & Attributes & NameProps) => (
  <TextAnchor inherit underline="always" {...props} />
))

interface NameLinkProps extends AnchorHTMLAttributes<HTMLAnchorElement>, NameProps {
  /** Beside it, and less important: a description. */
  readonly note?: ReactNode
}

/** The name of a thing in a list: all of its row opens the screen of it. */
export const NameLink = createLink(({ name, note, children, className = '', ...props }: NameLinkProps) => (
  <>
    <a {...props} className={`row-link ${className}`}>
      <bdi>{name ?? children}</bdi>
    </a>
    {note && (
      <span className="time-relative">
        {' '}
        <bdi>{note}</bdi>
      </span>
    )}
  </>
))

interface PersonLinkProps {
  readonly address: string
  /** Default: the address. */
  readonly children?: ReactNode
}

export const PersonLink = ({ address, children }: PersonLinkProps) => (
  <TextLink to="/people/$address" params={{ address }} inherit title={`All about ${address}`}>
    <bdi>{children ?? address}</bdi>
  </TextLink>
)
