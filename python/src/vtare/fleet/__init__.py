"""Campaigns over many hosts: who has which host for which run, decided in one place and kept in the store's journal."""
