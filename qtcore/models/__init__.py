"""The models: parameters behind the interface of :class:`qtcore.models.base.Model`."""
