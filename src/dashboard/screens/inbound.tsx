import { Page } from '../parts/page.tsx'

export const InboundScreen = () => <Page title="Inbound">Not built</Page>
